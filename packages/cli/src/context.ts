/** What a command is handed instead of reaching for the process. */
import type { Writable } from "node:stream";

export interface CliContext {
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Whether a person is looking: decides about colours, spinners and prompts. */
  readonly isTerminal: boolean;
  readonly colors: boolean;
  /** Aborted by SIGINT and SIGTERM; a second signal ends the process at once. */
  readonly signal: AbortSignal;
}

/** Exit codes of every command, documented in docs/command-line.md. */
export const EXIT = {
  ok: 0,
  /** It was tried and did not work: refused, unreachable, failed. */
  failed: 1,
  /** The command line itself was wrong. */
  usage: 2,
  /** mesh.yaml (or another file that was given) is not valid. */
  invalid: 3,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
