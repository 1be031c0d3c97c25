#!/usr/bin/env node
/** The `leafmesh` command: declares commands and options, and loads a command's code when it is called. */
import { enableCompileCache } from "node:module";

enableCompileCache();

// Libraries that listen to DEBUG (MQTT.js is one) print what they send and receive: push tokens, passwords, answers.
// `--log-level debug` is the way to see more, and it keeps secrets to itself.
delete process.env.DEBUG;

const { argv } = process;
const ran = argv[2] === "run" ? await (await import("./start-run.ts")).startRun(argv.slice(3), process) : undefined;
// A vendor's native part (LiveKit's is one) may hold the process when its work is done; nothing of ours does.
const HELD_FOR_MS = 2_000;

process.exitCode = ran ?? (await (await import("./command-line.ts")).runCommandLine(argv, process));
setTimeout(() => process.exit(), HELD_FOR_MS).unref();
