import type { StoredEvent } from "@leafmesh/protocol";
import { isOpenCall } from "../calls/pending-calls.ts";
import type { CallRecord } from "../storage/contract.ts";
import { type BridgeServices, isPastDeadline, tokenContext } from "./bridge-services.ts";

type CallEvent = Extract<StoredEvent, { type: "device_tool_call" }>;

export function isDeviceToolCall(event: StoredEvent): event is CallEvent {
  return event.type === "device_tool_call";
}

/** The frame for somebody who may answer: with the token while the call is open, and without it afterwards. */
export async function withCallToken(services: BridgeServices, event: CallEvent): Promise<CallEvent> {
  const call = await services.backend.call(event.payload.call_id);
  const token = call && tokenOf(services, call);
  if (token === undefined) return event;
  const { call_id, ...rest } = event.payload;
  return { ...event, payload: { call_id, call_token: token, ...rest } };
}

function tokenOf(services: BridgeServices, call: CallRecord): string | undefined {
  if (!isOpenCall(call) || call.sealedToken === undefined || isPastDeadline(services, call)) return undefined;
  return services.sealer.open(call.sealedToken, tokenContext(call));
}
