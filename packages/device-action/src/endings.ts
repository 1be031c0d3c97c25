/** What may be said of an ask that ends in a given state: how far it came, and what is certain. */
import type { ReplyEnvelope } from "@leafmesh/protocol";
import type { Delivered } from "@leafmesh/rooms/contract";
import type { AskState, Ending, In, Refusal, Stage } from "./ask-state.ts";

/** Whether the task has left, or may have. */
export function isOut(state: AskState): state is In<"sending"> | In<"waiting"> {
  return state.phase === "sending" || state.phase === "waiting";
}

function stageOf(state: AskState): Stage {
  switch (state.phase) {
    case "ringing":
      return "rung";
    case "checking":
    case "offering":
      return "joined";
    case "sending":
    case "waiting":
      return "sent";
    default:
      return "not_rung";
  }
}

/** Certain: the task did not reach the device and never will. */
export function nothingHappened(state: AskState, how: Pick<Ending, "outcome" | "reason">): Ending {
  const stage = stageOf(state);
  return { ...how, stage: stage === "sent" ? "joined" : stage, reached: "no", mayHaveHappened: false };
}

export function mayHaveHappened(state: In<"sending"> | In<"waiting">, reason: Ending["reason"]): Ending {
  const reached = state.accepted ? "yes" : "maybe";
  return { outcome: "failed", reason, stage: "sent", reached, mayHaveHappened: true };
}

/** Ends an ask from outside: `before` while the task has certainly not left, afterwards `failed` for `reason`. */
export function untilSent(
  state: AskState,
  before: Pick<Ending, "outcome" | "reason">,
  reason: Ending["reason"],
): Ending {
  return isOut(state) ? mayHaveHappened(state, reason) : nothingHappened(state, before);
}

/** The device or the room is gone after the task was handed over; only then does the room's certainty count. */
export function afterLoss(
  state: In<"waiting">,
  reason: "connection_lost" | "room_closed",
  delivered: Delivered,
): Ending {
  if (state.accepted || delivered !== "no") return mayHaveHappened(state, reason);
  return { outcome: "failed", reason, stage: "sent", reached: "no", mayHaveHappened: false };
}

/** A device that ran the task and whose answer does not fit the room says so with this code. */
const REPLY_TOO_LARGE = "reply_too_large";

export function replied(reply: ReplyEnvelope): Ending {
  if (reply.outcome === "failed" && reply.error?.code === REPLY_TOO_LARGE) return tooLarge();
  return {
    outcome: reply.outcome,
    ...(reply.outcome === "failed" ? { reason: "device_error" as const } : {}),
    ...(reply.outcome === "done" && reply.data !== undefined ? { data: reply.data } : {}),
    ...(reply.error && reply.outcome !== "done" ? { words: reply.error } : {}),
    stage: "sent",
    reached: "yes",
    mayHaveHappened: reply.outcome === "failed" && reply.error?.may_have_happened === true,
  };
}

export function tooLarge(): Ending {
  return { outcome: "failed", reason: "reply_too_large", stage: "sent", reached: "yes", mayHaveHappened: true };
}

export function refused(state: AskState, { reason, detail }: Refusal): Ending {
  return { ...nothingHappened(state, { outcome: "refused", reason }), detail };
}

export function notAllowed(state: AskState): Ending {
  return nothingHappened(state, { outcome: "not_joined", reason: "connection_not_allowed" });
}
