/** Ends an ask that a dead process left open. Nothing is sent again: what may have happened is said to have. */
import type { CallRecord } from "@leafmesh/core";
import { isOpenState, type OpenCallState } from "@leafmesh/core/calls";
import type { DeviceEnvelope } from "@leafmesh/protocol";
import { storedResult } from "./ask-record.ts";
import type { AskEnd } from "./ask-run.ts";
import type { AskServices } from "./ask-services.ts";
import type { AskEffect, AskEvent, AskState, Ending } from "./ask-state.ts";
import { settledStory } from "./ask-story.ts";
import { bounded } from "./bounded.ts";
import { callStateOf } from "./call-states.ts";
import type { ConnectionPool } from "./connections.ts";
import { resultOf } from "./outcomes.ts";
import { envelopeEvent } from "./room-events.ts";

const FETCH_MS = 10_000;

export interface Recovery {
  readonly services: Pick<AskServices, "calls" | "clock" | "logger" | "step">;
  readonly connections: ConnectionPool;
  readonly signal: AbortSignal;
}

/**
 * The outcome of `call`: the stored one, the answer that a room outside the process kept, or what is certain without
 * it.
 */
export async function recoverAsk(call: CallRecord, recovery: Recovery): Promise<AskEnd> {
  const end = (result: unknown): AskEnd => ({ result: storedResult(result), callId: call.id });
  if (!isOpenState(call.state)) return end(call.result);
  const { calls, clock, logger, step } = recovery.services;
  const state = restoredState(call.state);
  const answer = state.phase === "waiting" ? await keptAnswer(call, recovery) : undefined;
  const ending =
    (answer && endingOf(step(state, answer).effects)) ?? endingOf(step(state, { type: "mesh_stopped" }).effects);
  if (!ending) throw new Error(`ask ${call.id} does not end in the state ${state.phase}`);
  const result = resultOf(ending, call.device);
  const settlement = { state: callStateOf(ending), reached: ending.reached, result };
  try {
    const moved = await calls.settle(call, settlement, settledStory(call.id, result, clock.nowMs() - call.createdAt));
    return end(moved.status === "settled" ? moved.call.result : result);
  } catch (error) {
    logger.error("the outcome of a recovered ask could not be stored", { ask: call.id, error });
    return end(result);
  }
}

/** Where the ask stood, as far as its record says. Before `offered` was stored, no task has left. */
function restoredState(stored: OpenCallState): AskState {
  switch (stored) {
    case "created":
    case "reaching":
      return { phase: "queued" };
    case "offered":
    case "claimed":
      return { phase: "waiting", accepted: stored === "claimed", away: false, oversized: false };
    default:
      return stored satisfies never;
  }
}

function endingOf(effects: readonly AskEffect[]): Ending | undefined {
  return effects.find((effect) => effect.type === "settle")?.ending;
}

/** The device's reply, if the room outlived the process and kept it. */
async function keptAnswer(
  call: CallRecord,
  { services, connections, signal }: Recovery,
): Promise<AskEvent | undefined> {
  if (!call.room) return undefined;
  const { connection, label } = call.room;
  const rooms = connections.room(connection ?? undefined)?.rooms;
  if (!rooms?.recover) return undefined;
  const fetch = rooms.recover.bind(rooms, label, call.id);
  try {
    const kept: DeviceEnvelope | undefined = await bounded(services.clock, FETCH_MS, signal, fetch);
    return kept?.type === "reply" ? envelopeEvent(kept, call.id) : undefined;
  } catch (error) {
    services.logger.warn("a room could not be asked for a kept answer", { ask: call.id, room: label, error });
    return undefined;
  }
}
