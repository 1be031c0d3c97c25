import type { ReplyEnvelope } from "@leafmesh/protocol";

/** What goes back to the mesh, without the task's id. */
export type Answer = Pick<ReplyEnvelope, "outcome" | "data" | "error">;

/** Shared by every copy of the kit in one program, and never part of data that came over a wire. */
const brand = Symbol.for("leafmesh.device.answer");

/** An answer other than `done`, made by {@link decline}, {@link sendForApproval} or {@link fail}. Return or throw it. */
export interface SpecialAnswer {
  readonly [brand]: Answer;
}

/** Limits of the reply's fields in the protocol. */
const MAX_CODE_CHARACTERS = 64;
const MAX_MESSAGE_CHARACTERS = 2000;

/** The device will not do it. `reason` is shown to the agent. */
export function decline(reason?: string): SpecialAnswer {
  return { [brand]: { outcome: "declined", ...(reason === undefined ? {} : { error: { message: cut(reason) } }) } };
}

/** The task now waits for a person on this device; its answer does not come back. `note` is shown to the agent. */
export function sendForApproval(note?: string): SpecialAnswer {
  return {
    [brand]: { outcome: "sent_for_approval", ...(note === undefined ? {} : { error: { message: cut(note) } }) },
  };
}

export interface FailOptions {
  /**
   * Whether the action may have taken effect all the same. Say `false` only when nothing was done; left out, it is
   * `false`, since a handler that calls `fail` knows what it did.
   */
  readonly mayHaveHappened?: boolean;
}

/** The device tried and could not. `code` is for programs (at most 64 characters), `message` for the agent. */
export function fail(code: string, message: string, options: FailOptions = {}): SpecialAnswer {
  return { [brand]: failure(code, message, options.mayHaveHappened ?? false) };
}

/** @internal */
export function failure(code: string, message: string, mayHaveHappened: boolean): Answer {
  return {
    outcome: "failed",
    error: {
      code: code.slice(0, MAX_CODE_CHARACTERS),
      message: cut(message),
      may_have_happened: mayHaveHappened,
    },
  };
}

/** @internal The answer inside what a handler returned or threw, if it is one. */
export function specialAnswer(value: unknown): Answer | undefined {
  return isSpecial(value) ? value[brand] : undefined;
}

function isSpecial(value: unknown): value is SpecialAnswer {
  return typeof value === "object" && value !== null && Object.hasOwn(value, brand);
}

function cut(text: string): string {
  return text.slice(0, MAX_MESSAGE_CHARACTERS);
}
