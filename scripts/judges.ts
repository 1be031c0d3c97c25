/**
 * Servers that are nobody's double: the vendor's own program, built from its published source, judges what the tests of
 * its provider claim. They are programs of other languages, so they are had only where that language is.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { join } from "node:path";

/** The newest whose modules a plain Go proxy has. */
const LIVEKIT = { module: "github.com/livekit/livekit-server/cmd/server", version: "v1.13.5" };
const BUILD_WITHIN_MS = 15 * 60_000;

/** A judge that is there, or why it is not. */
export type Judge =
  | { readonly name: string; readonly environment: Readonly<Record<string, string>>; readonly tests: readonly string[] }
  | { readonly name: string; readonly leftOut: string };

/**
 * LiveKit's server: the one that is named by the environment, else built with Go beside whatever runs meanwhile, and kept
 * in the checkout. Never throws.
 */
export async function livekitJudge(root: string, hasCommand: (command: string) => boolean): Promise<Judge> {
  const name = "LiveKit's own server";
  const folder = join(root, "node_modules", ".leafmesh", `livekit-${LIVEKIT.version}`);
  const built = join(folder, "server");
  const path = process.env.LEAFMESH_LIVEKIT_SERVER ?? built;
  if (!existsSync(path)) {
    if (!hasCommand("go")) return { name, leftOut: "there is no Go on the PATH to build it with" };
    mkdirSync(folder, { recursive: true });
    const problem = await build(folder);
    if (problem !== undefined) return { name, leftOut: problem };
  }
  return {
    name,
    environment: { LEAFMESH_LIVEKIT_SERVER: path },
    tests: ["packages/device/src/connectors/livekit.test.ts", "tests/journeys/outcomes.test.ts", "-t", "LiveKit"],
  };
}

/** What went wrong, in one sentence. */
function build(folder: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn("go", ["install", "-p", "1", `${LIVEKIT.module}@${LIVEKIT.version}`], {
      env: { ...process.env, GOBIN: folder, GOMAXPROCS: "1" },
      stdio: ["ignore", "ignore", "pipe"],
      timeout: BUILD_WITHIN_MS,
      killSignal: "SIGKILL",
    });
    // The tests beside it come first.
    if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    process.on("exit", () => child.kill("SIGKILL"));
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => {
      said = (said + chunk.toString("utf8")).slice(-2_000);
    });
    child.on("error", (error) => resolve(`go could not be started: ${error.message}`));
    child.on("close", (code, signal) => {
      if (code === 0) return resolve(undefined);
      const last = said.trim().split("\n").at(-1) ?? "";
      resolve(
        signal ? `it was not built within ${BUILD_WITHIN_MS / 60_000} minutes` : `it could not be built: ${last}`,
      );
    });
  });
}
