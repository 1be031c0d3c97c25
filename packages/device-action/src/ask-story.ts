/** What is stored about an ask for people: the events of its life and the attempts to reach its device. */
import type { EventNotices } from "@leafmesh/core";
import type { Alongside } from "@leafmesh/core/calls";
import type { RingError } from "@leafmesh/notifiers/contract";
import type { Approval, AskResult } from "@leafmesh/protocol";
import type { RoomError } from "@leafmesh/rooms/contract";
import type { AskPlan } from "./ask-plan.ts";
import type { AskEffect } from "./ask-state.ts";
import { shorten } from "./outside-data.ts";

/** Effects that only tell what happened. */
export type Note = Extract<AskEffect, { type: `note_${string}` }>;

type Asked = Pick<AskPlan, "askId" | "deviceId" | "connection">;

const MAX_TROUBLE_CHARACTERS = 300;

/** @param joinBy seconds since the epoch */
export function createdStory(plan: AskPlan, joinBy: number): Alongside {
  const { askId, deviceId, action, approval, invocation } = plan;
  const { runId, agent } = invocation;
  const payload = { ask_id: askId, device: deviceId, run_id: runId, agent, action, approval, join_by: joinBy };
  return { events: [{ type: "ask.created", payload }] };
}

/** A request that was refused before anybody was rung: created and settled in the same moment. */
export function refusedStory(
  refused: {
    readonly askId: string;
    readonly runId: string;
    readonly agent: string;
    readonly approval: Approval;
    /** As the model named it, when it named one. */
    readonly action: string | undefined;
  },
  result: AskResult,
): Alongside {
  const { askId, runId, agent, approval, action } = refused;
  const payload = {
    ask_id: askId,
    run_id: runId,
    agent,
    approval,
    ...(result.device === undefined ? {} : { device: result.device }),
    ...(action === undefined ? {} : { action }),
  };
  return { events: [{ type: "ask.created", payload }, ...(settledStory(askId, result, 0).events ?? [])] };
}

export function reachingStory({ askId, deviceId, connection }: Asked, roomProvider: string, label: string): Alongside {
  const ask = { ask_id: askId, device: deviceId };
  return {
    events: [
      { type: "ask.opened", payload: { ...ask, room_provider: roomProvider, room: label } },
      { type: "ask.ringing", payload: { ...ask, notifier: connection } },
    ],
  };
}

export function acceptedStory({ askId, deviceId }: Asked): Alongside {
  return { events: [{ type: "ask.accepted", payload: { ask_id: askId, device: deviceId } }] };
}

export function settledStory(askId: string, result: AskResult, durationMs: number): Alongside {
  const payload = { ask_id: askId, duration_ms: Math.max(Math.round(durationMs), 0), result };
  return { events: [{ type: "ask.settled", payload }] };
}

/** @param facts what the machine does not know: the notifier's receipt, and the reply deadline in seconds */
export function noteStory(
  note: Note,
  { askId, deviceId, connection }: Asked,
  facts: { readonly receipt: string | undefined; readonly replyBy: number },
): Alongside {
  const ask = { ask_id: askId, device: deviceId };
  switch (note.type) {
    case "note_rung": {
      const receipt = facts.receipt === undefined ? {} : { receipt: facts.receipt };
      return {
        events: [{ type: "ask.rung", payload: { ...ask, notifier: connection, ...receipt } }],
        offers: [{ channel: "ring", via: connection, ...receipt }],
      };
    }
    case "note_joined": {
      const capabilities = note.capabilities && { capabilities: note.capabilities.map(({ name }) => name) };
      return { events: [{ type: "ask.joined", payload: { ...ask, ...capabilities } }] };
    }
    case "note_sent":
      return { events: [{ type: "ask.sent", payload: { ...ask, reply_by: facts.replyBy } }] };
    case "note_progress": {
      const said = note.note === undefined ? {} : { note: note.note };
      const done = note.pct === undefined ? {} : { pct: note.pct };
      return { events: [{ type: "ask.progress", payload: { ...ask, ...said, ...done } }] };
    }
    case "note_away":
      return { events: [{ type: "ask.away", payload: { ...ask, grace_s: note.graceMs / 1000 } }] };
    case "note_back":
      return { events: [{ type: "ask.back", payload: ask }] };
    case "note_late_reply":
      return { events: [{ type: "ask.late_reply", payload: { ...ask, outcome: note.outcome } }] };
    default:
      return note satisfies never;
  }
}

/** A ring that was not taken. A dead token is told to the app, so that it can drop it. */
export function ringTroubleStory(
  { deviceId, connection, invocation }: Asked & Pick<AskPlan, "invocation">,
  error: RingError,
  notices: EventNotices,
): Alongside {
  const offers = [{ channel: "ring", via: connection, error: troubleOf(error) }] as const;
  if (error.kind !== "dead_token") return { offers };
  const event = { type: "device.token_dead", payload: { device: deviceId, notifier: connection } } as const;
  return { offers, events: [event], writes: notices.writesFor(event, invocation.runId) };
}

export function taskTroubleStory(roomProvider: string, error: RoomError): Alongside {
  return { offers: [{ channel: "task", via: roomProvider, error: troubleOf(error) }] };
}

function troubleOf({ kind, code, message }: RingError | RoomError): string {
  return shorten(`${kind}${code === undefined ? "" : ` (${code})`}: ${message}`, MAX_TROUBLE_CHARACTERS);
}
