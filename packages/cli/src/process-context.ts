/** Between the process and its commands: what they are handed, and how their failures are told. */
import { type CliContext, EXIT, type ExitCode } from "./context.ts";
import { CommandFailure } from "./failure.ts";
import { writeLine } from "./output.ts";

/** The parts of `process` that the command line touches. */
export type ProcessLike = Pick<NodeJS.Process, "stdout" | "stderr" | "env" | "cwd" | "on" | "exit">;

/** Takes SIGINT and SIGTERM over, and the end of a pipe that reads the output. */
export function createContext(processLike: ProcessLike): CliContext {
  const stop = new AbortController();
  // Whoever reads the output has seen enough (`leafmesh asks | head`): stop, and do not call it a failure.
  processLike.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") processLike.exit(EXIT.ok);
    throw error;
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    processLike.on(signal, () => {
      if (stop.signal.aborted) processLike.exit(EXIT.failed);
      stop.abort();
    });
  }
  const { stdout, stderr, env } = processLike;
  const isTerminal = Boolean(stdout.isTTY && stderr.isTTY);
  const wanted = env.NO_COLOR ? false : env.FORCE_COLOR ? true : isTerminal && env.TERM !== "dumb";
  return { stdout, stderr, env, cwd: processLike.cwd(), isTerminal, colors: wanted, signal: stop.signal };
}

/** Says what went wrong, and answers the exit code. */
export function report(error: unknown, context: CliContext): ExitCode {
  if (context.signal.aborted) return EXIT.failed;
  if (error instanceof CommandFailure) {
    writeLine(context.stderr, `leafmesh: ${error.message}`);
    if (error.hint) writeLine(context.stderr, `  ${error.hint}`);
    return error.exitCode;
  }
  writeLine(context.stderr, `leafmesh: unexpected: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  return EXIT.failed;
}
