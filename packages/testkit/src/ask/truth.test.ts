import type { AskResult } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import type { SimulatedAsk } from "./conversation.ts";
import { drawFaultPlan } from "./fault-plan.ts";
import { createRandom } from "./random.ts";
import { findViolations } from "./truth.ts";

const DONE: AskResult = { outcome: "done", success: true };
const NOT_JOINED: AskResult = { outcome: "not_joined", success: false, error: "No." };
const MAYBE: AskResult = {
  outcome: "failed",
  success: false,
  error: "?",
  reason: "no_answer",
  may_have_happened: true,
};

const sent = {
  opened: 1,
  closed: 1,
  sendCalled: true,
  verdict: "handed",
  verdictAtMs: 10,
  saidNeverDelivered: false,
} as const;

/** An ask that was done, and told as done. */
function ask(more: Partial<SimulatedAsk> = {}): SimulatedAsk {
  return {
    askId: "ask_1",
    plan: drawFaultPlan(createRandom(1)),
    result: DONE,
    recovered: false,
    tookMs: 1_000,
    endedAtMs: 1_000,
    deeds: { starts: 1, effects: 1, ignored: 0 },
    room: sent,
    deviceAnswer: "done",
    isStored: true,
    settledEvents: [more.result ?? DONE],
    processDied: false,
    wasOffered: false,
    ...more,
  };
}

const NOTHING_DONE = { starts: 0, effects: 0, ignored: 0 };

describe("the truth of one ask", () => {
  it.each<[string, Partial<SimulatedAsk>]>([
    ["done and told", {}],
    ["done, and told that it may have been", { result: MAYBE }],
    ["not done, and told that it may have been", { result: MAYBE, deeds: NOTHING_DONE, deviceAnswer: undefined }],
    ["not done, and told so", { result: NOT_JOINED, deeds: NOTHING_DONE, deviceAnswer: undefined, room: undefined }],
    [
      "never stored, and told nothing, by a process that died",
      { result: undefined, deeds: NOTHING_DONE, isStored: false, settledEvents: [], deviceAnswer: undefined },
    ],
    [
      "handed over after the outcome was told",
      {
        result: MAYBE,
        deeds: NOTHING_DONE,
        deviceAnswer: undefined,
        room: { ...sent, verdict: "not_handed", verdictAtMs: 2_000 },
      },
    ],
  ])("is kept: %s", (_name, more) => {
    expect(findViolations(ask(more))).toEqual([]);
  });

  it.each<[string, Partial<SimulatedAsk>, string]>([
    ["told done, nothing done", { deeds: NOTHING_DONE, deviceAnswer: undefined }, "false_done"],
    ["told done, the device said that it failed", { deviceAnswer: "failed" }, "false_done"],
    ["done, told that it did not happen", { result: NOT_JOINED }, "hidden"],
    [
      "done, told that it was declined",
      { result: { outcome: "declined", success: false }, deviceAnswer: "declined" },
      "hidden",
    ],
    ["done twice", { deeds: { starts: 2, effects: 2, ignored: 0 } }, "repeated"],
    [
      "told that it may have happened, nothing was sent",
      { result: MAYBE, deeds: NOTHING_DONE, room: undefined },
      "inflated",
    ],
    [
      "told that it may have happened, the room had said that it did not leave",
      { result: MAYBE, deeds: NOTHING_DONE, room: { ...sent, verdict: "not_handed" } },
      "inflated",
    ],
    ["told nothing", { result: undefined }, "no_outcome"],
    ["two outcomes in the store", { settledEvents: [DONE, DONE] }, "not_one_outcome"],
    ["another outcome in the store", { settledEvents: [NOT_JOINED] }, "not_one_outcome"],
    [
      "declined without the device's word",
      { result: { outcome: "declined", success: false }, deeds: NOTHING_DONE, deviceAnswer: undefined },
      "made_up",
    ],
    ["a room left open", { room: { ...sent, closed: 0 } }, "room_not_closed"],
    ["an outcome that came too late", { tookMs: 200_000 }, "too_late"],
  ])("is not kept: %s", (_name, more, violation) => {
    expect(findViolations(ask(more))).toContain(violation);
  });
});
