/** How calls end that no client answers, and the one event that says so. */
import type { SessionEvent, SessionEventPayload } from "@leafmesh/protocol";
import type { Alongside, Settlement } from "../calls/pending-calls.ts";
import type { CallRecord } from "../storage/contract.ts";
import { BRIDGE_ERRORS, type BridgeError, type BridgeResult } from "./bridge-result.ts";

export type Ending = "expired" | "lost" | "cancelled";

const ERRORS = {
  expired: BRIDGE_ERRORS.timeout,
  lost: BRIDGE_ERRORS.executorLeft,
  cancelled: BRIDGE_ERRORS.cancelled,
} as const satisfies Record<Ending, BridgeError>;

export function endingSettlement(call: Pick<CallRecord, "reached">, ending: Ending): Settlement<BridgeResult> {
  return { state: ending, reached: call.reached, result: { status: "error", error: ERRORS[ending] } };
}

export function settledEvent(
  callId: string,
  status: SessionEventPayload<"device_tool_call.settled">["status"],
): SessionEvent {
  return { type: "device_tool_call.settled", payload: { call_id: callId, status } };
}

/** What is stored with an ending. */
export function endingStory(callId: string, ending: Ending): Alongside {
  return { events: [settledEvent(callId, ending)] };
}
