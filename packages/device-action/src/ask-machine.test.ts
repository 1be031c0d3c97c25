import type { ReplyEnvelope } from "@leafmesh/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { stepAsk } from "./ask-machine.ts";
import { type AskEffect, type AskEvent, type AskState, type Ending, INITIAL_STATE } from "./ask-state.ts";

interface Told {
  readonly state: AskState;
  readonly effects: readonly AskEffect[];
}

function tell(...events: readonly AskEvent[]): Told {
  return tellFrom(INITIAL_STATE, events);
}

function tellFrom(initial: AskState, events: readonly AskEvent[]): Told {
  let state = initial;
  const effects: AskEffect[] = [];
  for (const event of events) {
    const step = stepAsk(state, event);
    state = step.state;
    effects.push(...step.effects);
  }
  return { state, effects };
}

function endingOf({ effects }: Told): Ending | undefined {
  return effects.find((effect) => effect.type === "settle")?.ending;
}

const CREATED = [{ type: "validated" }, { type: "created" }] as const;
const RINGING = [...CREATED, { type: "turn_came" }, { type: "room_opened" }, { type: "reaching_stored" }] as const;
const SENDING = [...RINGING, { type: "rung" }, { type: "joined" }, { type: "offer_stored" }] as const;
const HANDED: AskEvent = { type: "sent", status: "handed" };
const WAITING = [...SENDING, HANDED] as const;

function reply(outcome: ReplyEnvelope["outcome"], more: Partial<ReplyEnvelope> = {}): AskEvent {
  return { type: "reply", reply: { type: "reply", id: "ask_1", outcome, ...more }, fits: true };
}

describe("the straight way", () => {
  it("stores, rings, stores, sends, and believes the reply", () => {
    const told = tell(...WAITING, { type: "accepted" }, reply("done", { data: { level: 80 } }));
    expect(told.effects.map(({ type }) => type)).toEqual([
      "create",
      "take_turn",
      "open_room",
      "store_reaching",
      "ring",
      "note_rung",
      "stop_ringing",
      "note_joined",
      "store_offered",
      "send_task",
      "note_sent",
      "store_accepted",
      "settle",
      "close_room",
    ]);
    expect(endingOf(told)).toEqual({
      outcome: "done",
      data: { level: 80 },
      stage: "sent",
      reached: "yes",
      mayHaveHappened: false,
    });
  });

  it("lets a device join before the notifier says that it took the ring", () => {
    const told = tell(...RINGING, { type: "joined" }, { type: "rung" }, { type: "offer_stored" });
    expect(told.state).toMatchObject({ phase: "sending" });
  });

  it("believes a reply that overtakes the verdict on the send", () => {
    expect(endingOf(tell(...SENDING, reply("declined")))).toMatchObject({ outcome: "declined", reached: "yes" });
  });
});

describe("before the task has left, every end is certain", () => {
  const ends: readonly [name: string, before: readonly AskEvent[], last: AskEvent, outcome: string, reason?: string][] =
    [
      ["no notifier", [...CREATED, { type: "turn_came" }], { type: "no_connection" }, "unreachable", "no_connection"],
      ["no room", [...CREATED, { type: "turn_came" }], { type: "no_room" }, "unreachable", "no_room"],
      [
        "a token of another shape",
        [...CREATED, { type: "turn_came" }],
        { type: "bad_token" },
        "unreachable",
        "bad_token",
      ],
      [
        "a refused room key",
        [...CREATED, { type: "turn_came" }],
        { type: "room_failed", kind: "bad_credential" },
        "unreachable",
        "room_key_refused",
      ],
      [
        "a plan limit",
        [...CREATED, { type: "turn_came" }],
        { type: "room_failed", kind: "plan_limit" },
        "unreachable",
        "room_plan_limit",
      ],
      [
        "a room service that is down",
        [...CREATED, { type: "turn_came" }],
        { type: "room_failed", kind: "unavailable" },
        "unreachable",
        "room_unavailable",
      ],
      ["a room that does not open", [...CREATED, { type: "turn_came" }], join(), "unreachable", "room_unavailable"],
      ["a turn that does not come", CREATED, join(), "not_joined", "no_join"],
      ["a dead token", RINGING, { type: "ring_failed", kind: "dead_token" }, "unreachable", "dead_token"],
      ["an offline device", RINGING, { type: "ring_failed", kind: "offline" }, "not_joined", "device_offline"],
      ["a refused ring", RINGING, { type: "ring_failed", kind: "bad_request" }, "unreachable", "notifier_rejected"],
      ["a ring too big", RINGING, { type: "ring_failed", kind: "too_big" }, "unreachable", "notifier_rejected"],
      ["a used up quota", RINGING, { type: "ring_failed", kind: "quota" }, "unreachable", "notifier_quota"],
      [
        "a push service down",
        RINGING,
        { type: "ring_failed", kind: "transient" },
        "unreachable",
        "notifier_unavailable",
      ],
      [
        "a refused push key",
        RINGING,
        { type: "ring_failed", kind: "bad_credential" },
        "unreachable",
        "notifier_key_refused",
      ],
      ["a ring that is never taken", RINGING, join(), "unreachable", "notifier_unavailable"],
      ["nobody joining", [...RINGING, { type: "rung" }], join(), "not_joined", "no_join"],
      ["a person who says no", RINGING, { type: "connection_refused" }, "not_joined", "connection_not_allowed"],
      ["a room closed while ringing", RINGING, closed("unavailable", "maybe"), "unreachable", "room_unavailable"],
      ["a device that leaves first", [...RINGING, { type: "joined" }], left("maybe"), "not_joined", "no_join"],
      ["a failed store", [...RINGING, { type: "joined" }], { type: "store_failed" }, "unreachable"],
      ["a cancelled run", [...RINGING, { type: "joined" }], { type: "cancelled" }, "not_joined", "cancelled"],
      [
        "a stop of the mesh",
        [...RINGING, { type: "joined" }],
        { type: "mesh_stopped" },
        "unreachable",
        "mesh_restarted",
      ],
      ["a bug", RINGING, { type: "broken" }, "unreachable"],
      ["a task that did not leave", SENDING, notHanded("unavailable"), "unreachable", "room_unavailable"],
      ["a task that was too big after all", SENDING, notHanded("too_big"), "refused", "task_too_large"],
    ];

  it.each(ends)("%s", (_name, before, last, outcome, reason) => {
    const ending = endingOf(tell(...before, last));
    expect(ending).toMatchObject({ outcome, reached: "no", mayHaveHappened: false });
    expect(ending?.reason).toBe(reason);
  });

  it("refuses a task that the room cannot carry, and closes the room", () => {
    const refusal = { reason: "task_too_large", detail: "too large" } as const;
    const told = tell(...CREATED, { type: "turn_came" }, { type: "room_opened", refusal });
    expect(endingOf(told)).toMatchObject({ outcome: "refused", reason: "task_too_large", detail: "too large" });
    expect(told.effects.at(-1)).toEqual({ type: "close_room", cancelTask: false });
  });

  it("sends nothing when the action is not among those that the device declares on joining", () => {
    const refusal = { reason: "unknown_action", detail: "it offers []" } as const;
    const told = tell(...RINGING, { type: "joined", capabilities: [] }, { type: "refused", refusal });
    expect(endingOf(told)).toMatchObject({ outcome: "refused", reason: "unknown_action" });
    expect(told.effects.some(({ type }) => type === "send_task")).toBe(false);
  });
});

describe("once the task has left", () => {
  const SILENCE: readonly [name: string, last: AskEvent, reason: string | undefined][] = [
    ["no answer", { type: "deadline", which: "reply" }, "no_answer"],
    ["a device that leaves", left("maybe"), "connection_lost"],
    ["a device that had the task and leaves", left("yes"), "connection_lost"],
    ["a room that closes", closed("unavailable", "maybe"), "room_closed"],
    ["a cancelled run", { type: "cancelled" }, "cancelled"],
    ["a stop of the mesh", { type: "mesh_stopped" }, "mesh_restarted"],
    ["a bug", { type: "broken" }, undefined],
  ];

  it.each(SILENCE)("%s: it may have happened", (_name, last, reason) => {
    const ending = endingOf(tell(...WAITING, last));
    expect(ending).toMatchObject({ outcome: "failed", reached: "maybe", mayHaveHappened: true });
    expect(ending?.reason).toBe(reason);
  });

  it("is certain when the room is certain that the device never got it", () => {
    expect(endingOf(tell(...WAITING, left("no")))).toMatchObject({
      outcome: "failed",
      reason: "connection_lost",
      reached: "no",
      mayHaveHappened: false,
    });
  });

  it("does not believe that certainty of a device that has shown the task", () => {
    const ending = endingOf(tell(...WAITING, { type: "accepted" }, left("no")));
    expect(ending).toMatchObject({ reached: "yes", mayHaveHappened: true });
  });

  it("does not believe it while the send is under way, since it may speak of the time before", () => {
    const told = tell(...SENDING, left("no"), HANDED);
    expect(endingOf(told)).toMatchObject({ reason: "connection_lost", mayHaveHappened: true });
  });

  it("knows after a device left during the send that nothing happened when nothing was handed over", () => {
    const told = tell(...SENDING, left("maybe"), notHanded("unavailable"));
    expect(endingOf(told)).toMatchObject({ outcome: "unreachable", mayHaveHappened: false });
  });

  it("believes the device, not the room, when the task was not handed over but accepted", () => {
    const told = tell(...SENDING, { type: "accepted" }, notHanded("unavailable"), { type: "deadline", which: "reply" });
    expect(endingOf(told)).toMatchObject({ outcome: "failed", reached: "yes", mayHaveHappened: true });
  });

  it("passes on that a device cannot say whether its failed task took effect", () => {
    const error = { code: "camera", message: "no idea", may_have_happened: true };
    const ending = endingOf(tell(...WAITING, reply("failed", { error })));
    expect(ending).toMatchObject({ reason: "device_error", words: error, mayHaveHappened: true });
  });

  it("keeps nothing of data that comes with anything but done", () => {
    expect(endingOf(tell(...WAITING, reply("failed", { data: "x" })))).not.toHaveProperty("data");
  });

  it("does not call a task done whose answer it cannot pass on", () => {
    const done: AskEvent = { type: "reply", reply: { type: "reply", id: "a", outcome: "done" }, fits: false };
    const ending = endingOf(tell(...WAITING, done));
    expect(ending).toMatchObject({ outcome: "failed", reason: "reply_too_large", mayHaveHappened: true });
  });

  it("says at the deadline that an answer may have been too large", () => {
    const told = tell(...WAITING, { type: "oversized" }, { type: "deadline", which: "reply" });
    expect(endingOf(told)).toMatchObject({ reason: "reply_too_large", mayHaveHappened: true });
  });

  it("still takes the right answer after one that was too large", () => {
    expect(endingOf(tell(...WAITING, { type: "oversized" }, reply("done")))).toMatchObject({ outcome: "done" });
  });

  it("tells a device that nobody waits any more, unless it answered or is gone", () => {
    const cancels = (...events: readonly AskEvent[]) =>
      tell(...WAITING, ...events).effects.find((effect) => effect.type === "close_room")?.cancelTask;
    expect(cancels({ type: "deadline", which: "reply" })).toBe(true);
    expect(cancels({ type: "cancelled" })).toBe(true);
    expect(cancels(reply("done"))).toBe(false);
    expect(cancels(reply("failed", { error: { may_have_happened: true } }))).toBe(false);
    expect(cancels(left("maybe"))).toBe(false);
  });
});

describe("a device that is away", () => {
  const AWAY: AskEvent = { type: "away", graceMs: 15_000 };

  it("gets its task when it is back, not before", () => {
    const away = tell(...RINGING, { type: "joined" }, AWAY, { type: "offer_stored" });
    expect(away.effects.some(({ type }) => type === "send_task")).toBe(false);
    const back = stepAsk(away.state, { type: "back" });
    expect(back.effects.map(({ type }) => type)).toEqual(["note_back", "send_task"]);
  });

  it("is checked while it is away and offered the task when it is back", () => {
    const told = tell(...RINGING, { type: "joined", capabilities: [] }, AWAY, { type: "checked" }, { type: "back" });
    expect(told.effects.slice(-2).map(({ type }) => type)).toEqual(["note_back", "store_offered"]);
  });

  it("that does not come back before the task was sent has not joined", () => {
    const told = tell(...RINGING, { type: "joined" }, AWAY, { type: "deadline", which: "reply" });
    expect(endingOf(told)).toMatchObject({ outcome: "not_joined", stage: "joined", mayHaveHappened: false });
  });

  it("may have done it when it does not come back within its grace", () => {
    const told = tell(...WAITING, AWAY, { type: "deadline", which: "grace" });
    expect(endingOf(told)).toMatchObject({ reason: "connection_lost", mayHaveHappened: true });
  });

  it("may come back, and a grace that passes later means nothing", () => {
    const told = tell(...WAITING, AWAY, { type: "back" }, { type: "deadline", which: "grace" }, reply("done"));
    expect(endingOf(told)).toMatchObject({ outcome: "done" });
  });
});

describe("after the end", () => {
  it("closes a room that opens too late, once", () => {
    const told = tell(
      ...CREATED,
      { type: "turn_came" },
      { type: "cancelled" },
      { type: "room_opened" },
      { type: "room_opened" },
    );
    expect(told.effects.filter(({ type }) => type === "close_room")).toHaveLength(1);
    expect(endingOf(told)).toMatchObject({ outcome: "not_joined", reason: "cancelled" });
  });

  it("keeps a late answer for people and changes nothing", () => {
    const ended = tell(...WAITING, { type: "deadline", which: "reply" });
    const late = stepAsk(ended.state, reply("done"));
    expect(late).toEqual({ state: ended.state, effects: [{ type: "note_late_reply", outcome: "done" }] });
  });

  it("takes over the outcome that somebody else stored", () => {
    const result = { outcome: "done", success: true } as const;
    const told = tell(...WAITING, { type: "overtaken", result }, reply("failed"));
    expect(told.effects.filter(({ type }) => type === "adopt" || type === "settle")).toEqual([
      { type: "adopt", result },
    ]);
  });
});

describe("any sequence of events", { timeout: 60_000 }, () => {
  const anyEvent = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...WAITING) },
    {
      weight: 4,
      arbitrary: fc.constantFrom<AskEvent>(
        { type: "joined", capabilities: [] },
        { type: "checked" },
        { type: "refused", refusal: { reason: "unknown_action", detail: "" } },
        { type: "no_connection" },
        { type: "room_failed", kind: "unavailable" },
        { type: "room_opened", refusal: { reason: "task_too_large", detail: "" } },
        { type: "ring_failed", kind: "transient" },
        { type: "connection_refused" },
        { type: "away", graceMs: 1_000 },
        { type: "back" },
        left("no"),
        left("maybe"),
        left("yes"),
        notHanded("unavailable"),
        { type: "accepted" },
        { type: "progress", pct: 5 },
        { type: "oversized" },
        closed("unavailable", "no"),
        closed("unavailable", "maybe"),
        join(),
        { type: "deadline", which: "reply" },
        { type: "deadline", which: "grace" },
        { type: "cancelled" },
        { type: "mesh_stopped" },
        { type: "store_failed" },
        { type: "broken" },
        { type: "overtaken", result: { outcome: "done", success: true } },
      ),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom(reply("done"), reply("failed"), reply("declined"), reply("sent_for_approval")),
    },
  );
  /** Mostly along the straight way, with anything at all in between: random events alone rarely get far. */
  const anyLife = fc.array(fc.tuple(fc.nat({ max: WAITING.length }), anyEvent), { maxLength: 12 }).chain((strays) =>
    fc.boolean().map((inOrder) => {
      if (!inOrder) return strays.map(([, event]) => event);
      const life: AskEvent[] = [...WAITING];
      for (const [at, event] of strays) life.splice(at, 0, event);
      return life;
    }),
  );

  /** The life as the machine lived it: what it was told, and what it wanted done, in order. */
  function live(events: readonly AskEvent[]) {
    let state: AskState = INITIAL_STATE;
    const lived: { readonly event: AskEvent; readonly before: AskState; readonly effects: readonly AskEffect[] }[] = [];
    for (const event of events) {
      const before = state;
      const step = stepAsk(state, event);
      state = step.state;
      lived.push({ event, before, effects: step.effects });
    }
    return { state, lived, effects: lived.flatMap(({ effects }) => effects) };
  }

  const holds = (property: (events: readonly AskEvent[]) => void) =>
    fc.assert(fc.property(anyLife, property), { numRuns: 5_000 });

  it("has at most one outcome, and is settled from then on", () => {
    holds((events) => {
      const { state, lived, effects } = live(events);
      const ends = effects.filter(({ type }) => type === "settle" || type === "adopt");
      expect(ends.length).toBeLessThanOrEqual(1);
      expect(state.phase === "settled").toBe(ends.length === 1);
      const after = lived.filter(({ before }) => before.phase === "settled").flatMap((step) => step.effects);
      expect(after.every(({ type }) => type === "note_late_reply" || type === "close_room")).toBe(true);
    });
  });

  it("is done, declined or sent for approval by a reply of the device alone", () => {
    holds((events) => {
      for (const { event, before, effects } of live(events).lived) {
        const ending = effects.find((effect) => effect.type === "settle")?.ending;
        if (!ending || !["done", "declined", "sent_for_approval"].includes(ending.outcome)) continue;
        expect(event).toMatchObject({ type: "reply", fits: true, reply: { outcome: ending.outcome } });
        expect(["sending", "waiting"]).toContain(before.phase);
      }
    });
  });

  it("stores before it rings and before it sends, and sends once", () => {
    holds((events) => {
      const { lived, effects } = live(events);
      expect(effects.filter(({ type }) => type === "send_task").length).toBeLessThanOrEqual(1);
      expect(effects.filter(({ type }) => type === "ring").length).toBeLessThanOrEqual(1);
      for (const [index, { effects: now }] of lived.entries()) {
        const told = lived.slice(0, index + 1).map(({ event }) => event.type);
        if (now.some(({ type }) => type === "ring")) expect(told).toContain("reaching_stored");
        if (now.some(({ type }) => type === "send_task")) expect(told).toContain("offer_stored");
      }
    });
  });

  it("says that it may have happened when the task was handed over and the device was silent", () => {
    holds((events) => {
      const { lived, effects } = live(events);
      const ending = effects.find((effect) => effect.type === "settle")?.ending;
      const handed = lived.some(({ before, event }) => before.phase === "sending" && event === HANDED);
      const last = lived.find((step) => step.effects.some(({ type }) => type === "settle"))?.event;
      if (!ending || !handed || last?.type === "reply") return;
      const certain = (last?.type === "left" || last?.type === "room_closed") && last.delivered === "no";
      expect(ending.outcome).toBe("failed");
      if (!certain) expect(ending.mayHaveHappened).toBe(true);
    });
  });

  it("never says that it may have happened when no task was sent", () => {
    holds((events) => {
      const { effects } = live(events);
      const ending = effects.find((effect) => effect.type === "settle")?.ending;
      if (!ending || effects.some(({ type }) => type === "send_task")) return;
      expect(ending).toMatchObject({ reached: "no", mayHaveHappened: false });
      expect(["not_joined", "unreachable", "refused"]).toContain(ending.outcome);
    });
  });

  it("closes a room that was opened exactly once, when the ask is over", () => {
    holds((events) => {
      const { state, lived, effects } = live(events);
      const opened = lived.some(
        ({ before, event }) =>
          event.type === "room_opened" &&
          (before.phase === "opening" || (before.phase === "settled" && before.room === "opening")),
      );
      const closes = effects.filter(({ type }) => type === "close_room").length;
      expect(closes).toBe(opened && state.phase === "settled" ? 1 : 0);
    });
  });

  it("ends whenever it is cancelled, stopped or broken", () => {
    holds((events) => {
      for (const type of ["cancelled", "mesh_stopped", "broken"] as const) {
        expect(live([...events, { type }]).state.phase).toBe("settled");
      }
    });
  });
});

function join(): AskEvent {
  return { type: "deadline", which: "join" };
}

function left(delivered: "no" | "maybe" | "yes"): AskEvent {
  return { type: "left", delivered };
}

function closed(kind: "unavailable", delivered: "no" | "maybe"): AskEvent {
  return { type: "room_closed", kind, delivered };
}

function notHanded(kind: "unavailable" | "too_big"): AskEvent {
  return { type: "sent", status: "not_handed", kind };
}
