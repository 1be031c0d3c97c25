import { EXIT, type ExitCode } from "./context.ts";

/** A command cannot go on. `message` is the sentence that the person reads; `hint` the cure, on a line of its own. */
export class CommandFailure extends Error {
  override readonly name = "CommandFailure";
  readonly exitCode: ExitCode;
  readonly hint: string | undefined;

  constructor(message: string, more: { exitCode?: ExitCode; hint?: string | undefined; cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.exitCode = more.exitCode ?? EXIT.failed;
    this.hint = more.hint;
  }
}
