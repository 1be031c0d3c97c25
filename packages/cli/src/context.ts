/** What a command is handed instead of reaching for the process. */
import type { Writable } from "node:stream";
import type { Network } from "@leafmesh/protocol";
import type { ProviderDefinitions } from "./registry.ts";

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
  /** What a program of one's own around a command hands in; never set by `leafmesh` itself. */
  readonly injected?:
    | {
        /** Providers beside the built-in ones, or instead of them where the name is the same. */
        readonly providers?: Partial<ProviderDefinitions> | undefined;
        /** Where a test plays the vendors of push services. */
        readonly network?: Network | undefined;
      }
    | undefined;
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
