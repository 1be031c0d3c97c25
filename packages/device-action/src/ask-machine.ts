/**
 * The life of an ask as a pure function. Nothing here waits, sends or stores: `stepAsk` says what to do next, whoever
 * drives it does it and reports back as events.
 *
 * What holds for every sequence of events, in any order and any number:
 * - at most one `settle` or `adopt`, after which nothing changes any more;
 * - `done`, `declined` and `sent_for_approval` come from a reply of the device alone;
 * - the task is offered in the store before it is sent, and sent at most once;
 * - once the room said that the task was handed over, no ending claims that it was not, unless the room itself is
 *   certain that the device never got it and never will;
 * - a room that was opened is closed exactly once.
 */
import type { Delivered } from "@leafmesh/rooms/contract";
import type { AskEffect, AskEvent, AskState, Ending, In, Step } from "./ask-state.ts";
import {
  afterLoss,
  isOut,
  mayHaveHappened,
  notAllowed,
  nothingHappened,
  refused,
  replied,
  tooLarge,
  untilSent,
} from "./endings.ts";
import { ringFailureEnding, roomFailureEnding } from "./failures.ts";

/** What `event` makes of `state`. Events that mean nothing in a state leave it as it is. */
export function stepAsk(state: AskState, event: AskEvent): Step {
  if (state.phase === "settled") return afterTheEnd(state, event);
  switch (event.type) {
    case "overtaken":
      return end(state, { type: "adopt", result: event.result });
    case "cancelled":
      return settle(state, untilSent(state, { outcome: "not_joined", reason: "cancelled" }, "cancelled"));
    case "mesh_stopped":
      return settle(state, untilSent(state, { outcome: "unreachable", reason: "mesh_restarted" }, "mesh_restarted"));
    case "store_failed":
    case "broken":
      return settle(state, untilSent(state, { outcome: "unreachable" }, undefined));
    default:
      return inPhase(state, event);
  }
}

function inPhase(state: Exclude<AskState, { phase: "settled" }>, event: AskEvent): Step {
  switch (state.phase) {
    case "validating":
      if (event.type === "validated") return go({ phase: "creating" }, { type: "create" });
      if (event.type === "refused") return settle(state, refused(state, event.refusal));
      return stay(state);
    case "creating":
      if (event.type === "created") return go({ phase: "queued" }, { type: "take_turn" });
      return beforeTheRing(state, event);
    case "queued":
      if (event.type === "turn_came") return go({ phase: "opening" }, { type: "open_room" });
      return beforeTheRing(state, event);
    case "opening":
      return opening(state, event);
    case "reaching":
      if (event.type === "reaching_stored") return go({ phase: "ringing", rung: false }, { type: "ring" });
      return beforeTheRing(state, event);
    case "ringing":
      return ringing(state, event);
    case "checking":
      return checking(state, event);
    case "offering":
      return offering(state, event);
    case "sending":
      return sending(state, event);
    case "waiting":
      return waiting(state, event);
    default:
      return unreachableCase(state);
  }
}

/** What the join deadline means while the device has not been rung. Elsewhere the mesh's own store was too slow. */
const TOO_LATE_TO_RING: Partial<Record<AskState["phase"], Pick<Ending, "outcome" | "reason">>> = {
  queued: { outcome: "not_joined", reason: "no_join" },
  opening: { outcome: "unreachable", reason: "room_unavailable" },
};

/** What can end an ask before its device was rung. */
function beforeTheRing(state: AskState, event: AskEvent): Step {
  switch (event.type) {
    case "deadline":
      if (event.which !== "join") return stay(state);
      return settle(state, nothingHappened(state, TOO_LATE_TO_RING[state.phase] ?? { outcome: "unreachable" }));
    case "room_closed":
      return settle(state, nothingHappened(state, roomFailureEnding(event.kind)));
    default:
      return stay(state);
  }
}

function opening(state: In<"opening">, event: AskEvent): Step {
  switch (event.type) {
    case "no_connection":
    case "no_room":
    case "bad_token":
      return settle(state, nothingHappened(state, { outcome: "unreachable", reason: event.type }));
    case "room_failed":
      return settle(state, nothingHappened(state, roomFailureEnding(event.kind)));
    case "room_opened":
      if (event.refusal) return settle({ phase: "reaching" }, refused(state, event.refusal));
      return go({ phase: "reaching" }, { type: "store_reaching" });
    default:
      return beforeTheRing(state, event);
  }
}

function ringing(state: In<"ringing">, event: AskEvent): Step {
  switch (event.type) {
    case "rung":
      return state.rung ? stay(state) : go({ ...state, rung: true }, { type: "note_rung" });
    case "ring_failed":
      return settle(state, nothingHappened(state, ringFailureEnding(event.kind)));
    case "joined": {
      const noted: AskEffect = { type: "note_joined", capabilities: event.capabilities };
      return event.capabilities
        ? go({ phase: "checking", checked: false, away: false }, { type: "stop_ringing" }, noted, {
            type: "check",
            capabilities: event.capabilities,
          })
        : go({ phase: "offering", stored: false, away: false }, { type: "stop_ringing" }, noted, {
            type: "store_offered",
          });
    }
    case "connection_refused":
      return settle(state, notAllowed(state));
    case "deadline":
      if (event.which !== "join") return stay(state);
      return settle(
        state,
        state.rung
          ? nothingHappened(state, { outcome: "not_joined", reason: "no_join" })
          : nothingHappened(state, { outcome: "unreachable", reason: "notifier_unavailable" }),
      );
    case "room_closed":
      return settle(state, nothingHappened(state, roomFailureEnding(event.kind)));
    default:
      return stay(state);
  }
}

function checking(state: In<"checking">, event: AskEvent): Step {
  switch (event.type) {
    case "checked":
      if (state.away) return go({ ...state, checked: true });
      return go({ phase: "offering", stored: false, away: false }, { type: "store_offered" });
    case "refused":
      return settle(state, refused(state, event.refusal));
    case "back":
    case "joined":
      if (!state.away) return stay(state);
      if (!state.checked) return go({ ...state, away: false }, { type: "note_back" });
      return go({ phase: "offering", stored: false, away: false }, { type: "note_back" }, { type: "store_offered" });
    default:
      return joinedAndUnsent(state, event);
  }
}

function offering(state: In<"offering">, event: AskEvent): Step {
  switch (event.type) {
    case "offer_stored":
      if (state.stored) return stay(state);
      if (state.away) return go({ ...state, stored: true });
      return go(SENDING, { type: "send_task" });
    case "back":
    case "joined":
      if (!state.away) return stay(state);
      if (!state.stored) return go({ ...state, away: false }, { type: "note_back" });
      return go(SENDING, { type: "note_back" }, { type: "send_task" });
    default:
      return joinedAndUnsent(state, event);
  }
}

/** The device is in the room and has no task yet. A task is never sent to a device whose link is down. */
function joinedAndUnsent(state: In<"checking"> | In<"offering">, event: AskEvent): Step {
  switch (event.type) {
    case "rung":
      return go(state, { type: "note_rung" });
    case "away":
      return state.away ? stay(state) : go({ ...state, away: true }, { type: "note_away", graceMs: event.graceMs });
    case "left":
      return settle(state, nothingHappened(state, { outcome: "not_joined", reason: "no_join" }));
    case "connection_refused":
      return settle(state, notAllowed(state));
    case "room_closed":
      return settle(state, nothingHappened(state, roomFailureEnding(event.kind)));
    case "deadline":
      if (event.which === "grace" && !state.away) return stay(state);
      return settle(
        state,
        state.away
          ? nothingHappened(state, { outcome: "not_joined", reason: "no_join" })
          : nothingHappened(state, { outcome: "unreachable" }),
      );
    default:
      return stay(state);
  }
}

const SENDING: AskState = { phase: "sending", accepted: false, away: false, oversized: false };

function sending(state: In<"sending">, event: AskEvent): Step {
  switch (event.type) {
    case "sent": {
      const { gone, ...known } = state;
      // A device that shows the task knows better than a room that says the task never left.
      if (event.status === "not_handed" && !state.accepted) {
        return settle(state, nothingHappened(state, roomFailureEnding(event.kind, "sending")));
      }
      if (gone) return settle(state, mayHaveHappened(state, gone));
      return go({ ...known, phase: "waiting" }, { type: "note_sent" });
    }
    case "left":
      return goneWhileSending(state, "connection_lost", event.delivered);
    case "room_closed":
      return goneWhileSending(state, "room_closed", event.delivered);
    default:
      return taskIsOut(state, event);
  }
}

/**
 * A device or room that goes while the send is under way may have gone before it, so its `delivered: "no"` may speak of
 * a time without a task. What became of the send decides.
 */
function goneWhileSending(state: In<"sending">, gone: "connection_lost" | "room_closed", delivered: Delivered): Step {
  if (state.accepted || delivered === "yes") return settle(state, mayHaveHappened(state, gone));
  return state.gone ? stay(state) : go({ ...state, gone });
}

function waiting(state: In<"waiting">, event: AskEvent): Step {
  switch (event.type) {
    case "left":
      return settle(state, afterLoss(state, "connection_lost", event.delivered));
    case "room_closed":
      return settle(state, afterLoss(state, "room_closed", event.delivered));
    default:
      return taskIsOut(state, event);
  }
}

/** The task has left, or may have. */
function taskIsOut(state: In<"sending"> | In<"waiting">, event: AskEvent): Step {
  switch (event.type) {
    case "rung":
      return go(state, { type: "note_rung" });
    case "accepted":
      return state.accepted ? stay(state) : go({ ...state, accepted: true }, { type: "store_accepted" });
    case "progress": {
      const note: AskEffect = { type: "note_progress", note: event.note, pct: event.pct };
      return state.accepted ? go(state, note) : go({ ...state, accepted: true }, { type: "store_accepted" }, note);
    }
    case "reply":
      return settle(state, event.fits ? replied(event.reply) : tooLarge());
    case "oversized":
      return go({ ...state, oversized: true });
    case "away":
      return state.away ? stay(state) : go({ ...state, away: true }, { type: "note_away", graceMs: event.graceMs });
    case "back":
    case "joined":
      return state.away ? go({ ...state, away: false }, { type: "note_back" }) : stay(state);
    case "deadline":
      switch (event.which) {
        case "join":
          return stay(state);
        case "grace":
          return state.away ? settle(state, mayHaveHappened(state, "connection_lost")) : stay(state);
        case "reply":
          return settle(state, mayHaveHappened(state, state.oversized ? "reply_too_large" : "no_answer"));
        default:
          return unreachableCase(event.which);
      }
    default:
      return stay(state);
  }
}

/** The outcome stands. A room that still turns up is closed, and an answer that comes late is kept for people. */
function afterTheEnd(state: In<"settled">, event: AskEvent): Step {
  if (event.type === "room_opened" && state.room === "opening") {
    return go({ phase: "settled", room: "over" }, { type: "close_room", cancelTask: false });
  }
  if (event.type === "reply") return go(state, { type: "note_late_reply", outcome: event.reply.outcome });
  return stay(state);
}

const HAS_ROOM: ReadonlySet<AskState["phase"]> = new Set([
  "reaching",
  "ringing",
  "checking",
  "offering",
  "sending",
  "waiting",
]);

/** Ends of a task that the device may still be working on, and can be told of. */
const UNANSWERED: ReadonlySet<Ending["reason"]> = new Set(["no_answer", "cancelled", "mesh_restarted", undefined]);

/** The outcome first, so that a room that keeps an answer for the mesh has it until the outcome is stored. */
function end(state: AskState, last: Extract<AskEffect, { type: "settle" | "adopt" }>): Step {
  const room = state.phase === "opening" ? "opening" : "over";
  if (!HAS_ROOM.has(state.phase)) return go({ phase: "settled", room }, last);
  const unanswered = last.type === "adopt" || (last.ending.outcome === "failed" && UNANSWERED.has(last.ending.reason));
  return go({ phase: "settled", room }, last, { type: "close_room", cancelTask: isOut(state) && unanswered });
}

function settle(state: AskState, ending: Ending): Step {
  return end(state, { type: "settle", ending });
}

function stay(state: AskState): Step {
  return { state, effects: [] };
}

function go(state: AskState, ...effects: readonly AskEffect[]): Step {
  return { state, effects };
}

function unreachableCase(value: never): never {
  throw new Error(`unhandled: ${JSON.stringify(value)}`);
}
