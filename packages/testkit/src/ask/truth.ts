/** Holds what agents were told against what really happened. */
import type { AskResult } from "@leafmesh/protocol";
import type { SimulatedAsk } from "./conversation.ts";

/** A way in which an agent was misled, or a rule that was broken. */
export type Violation =
  /** It was told that it happened, and it did not. */
  | "false_done"
  /** It happened, and it was told neither that it did nor that it may have. */
  | "hidden"
  /** The device did it more than once. */
  | "repeated"
  /** It was told that it may have happened, and the task certainly never left. */
  | "inflated"
  /** It was told nothing at all. */
  | "no_outcome"
  /** The store does not have exactly one outcome, or another one than the agent was told. */
  | "not_one_outcome"
  /** `declined` or `sent_for_approval` without the device's word. */
  | "made_up"
  /** A room of a living mesh was left open, or closed twice. */
  | "room_not_closed"
  /** It took longer than join, reply, grace and the retries of a failing store allow. */
  | "too_late";

/** Join and reply timeouts, grace, and what a failing store and a queue of asks to one device may add. */
const LONGEST_MS = 60_000 + 60_000 + 16_000 + 10_000;

export function findViolations(ask: SimulatedAsk): readonly Violation[] {
  const { result, deeds, room } = ask;
  const violations: Violation[] = [];
  const happened = deeds.effects > 0;
  if (deeds.effects > 1 || deeds.starts > 1) violations.push("repeated");
  if (!result) {
    if (ask.isStored || happened) violations.push("no_outcome");
    return violations;
  }
  if (result.outcome === "done" && !(happened && ask.deviceAnswer === "done")) violations.push("false_done");
  if (happened && !tellsThatItMayHave(result)) violations.push("hidden");
  if (result.may_have_happened && !mayHaveLeft(ask)) violations.push("inflated");
  if (isDevicesWord(result.outcome) && result.outcome !== ask.deviceAnswer) violations.push("made_up");
  if (ask.isStored && !isTheOne(result, ask.settledEvents)) violations.push("not_one_outcome");
  if (!ask.processDied && room && room.closed !== room.opened) violations.push("room_not_closed");
  if (ask.tookMs !== undefined && ask.tookMs > LONGEST_MS) violations.push("too_late");
  return violations;
}

/** `sent_for_approval` leaves open what the person will do. */
function tellsThatItMayHave({ outcome, may_have_happened }: AskResult): boolean {
  return outcome === "done" || outcome === "sent_for_approval" || may_have_happened === true;
}

function mayHaveLeft({ room, recovered, wasOffered, endedAtMs = 0 }: SimulatedAsk): boolean {
  // After a crash nobody knows whether the process still sent what it had stored as about to be sent.
  if (recovered && wasOffered) return true;
  if (!room?.sendCalled) return false;
  return room.verdict !== "not_handed" || (room.verdictAtMs ?? 0) >= endedAtMs;
}

function isDevicesWord(outcome: AskResult["outcome"]): boolean {
  return outcome === "declined" || outcome === "sent_for_approval";
}

function isTheOne(told: AskResult, settled: readonly AskResult[]): boolean {
  const [only] = settled;
  return settled.length === 1 && only?.outcome === told.outcome && only.may_have_happened === told.may_have_happened;
}
