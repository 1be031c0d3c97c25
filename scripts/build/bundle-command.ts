/** The `leafmesh` command as a bundle: one file for each part that is loaded by itself. Why: docs/decisions/start-up.md */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build, type Metafile } from "esbuild";
import { builtInModules } from "./built-in-modules.ts";
import { lazyCommonJs, refuseNamelessFiles } from "./lazy-common-js.ts";
import { licensesOf } from "./licenses.ts";
import { importedBy, joinStart } from "./one-start-file.ts";

/** Resolved from where `leafmesh` is installed: the operator may bring another version of an optional provider's client. */
const external = ["mqtt", "ably", "pubnub", "pusher-js", "livekit-server-sdk", "@livekit/rtc-node"];

/** What `leafmesh run` loads before it is ready, and what reads the command line of every other command. */
const MAIN = "src/main.ts";
const START = "src/start-run.ts";
const OTHER_COMMANDS = "src/command-line.ts";

export interface Bundle {
  /** Bytes of all files of the command. */
  readonly totalBytes: number;
  /** Bytes of those that `leafmesh run` loads before it is ready. */
  readonly startBytes: number;
}

/** Bundles the package in `folder` into `outdir`, with the licenses of everything in it. */
export async function bundleCommand(folder: string, outdir: string): Promise<Bundle> {
  const { metafile } = await build({
    absWorkingDir: folder,
    entryPoints: ["src/main.ts"],
    outdir,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node22.22",
    // Names stay: they stand in the stack trace that somebody sends us, and cost nothing once they are compiled.
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    conditions: ["leafmesh-source"],
    external,
    chunkNames: "chunks/[name]-[hash]",
    plugins: [builtInModules, lazyCommonJs(["undici"])],
    logLevel: "warning",
    metafile: true,
  });
  refuseNamelessFiles(metafile);
  const nameOf = nameOfEntry(metafile.outputs);
  // The other commands would otherwise load the whole of a mesh with the few lines that they share with it.
  const apart = importedBy(metafile.outputs, [MAIN, OTHER_COMMANDS].map(nameOf));
  const start = nameOf(START);
  const outputs = await joinStart(metafile.outputs, { start, apart, folder });
  chmodSync(join(outdir, "main.js"), 0o755);
  writeFileSync(join(outdir, "third-party-licenses.txt"), licensesOf(Object.keys(metafile.inputs), folder));
  const bytesOf = (names: Iterable<string>): number =>
    [...names].reduce((sum, name) => sum + (outputs[name]?.bytes ?? 0), 0);
  return { totalBytes: bytesOf(Object.keys(outputs)), startBytes: bytesOf(importedBy(outputs, [nameOf(MAIN), start])) };
}

function nameOfEntry(outputs: Metafile["outputs"]): (source: string) => string {
  const names = new Map(Object.entries(outputs).map(([name, { entryPoint }]) => [entryPoint, name]));
  return (source) => {
    const name = names.get(source);
    if (name === undefined) throw new Error(`build: ${source} has no file of its own`);
    return name;
  };
}
