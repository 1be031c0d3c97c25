#!/usr/bin/env node
/** The `leafmesh` command: declares commands and options, and loads a command's code when it is called. */
import { enableCompileCache } from "node:module";

enableCompileCache();

const { runCommandLine } = await import("./command-line.ts");
process.exitCode = await runCommandLine(process.argv, process);
