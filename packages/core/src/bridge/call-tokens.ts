import type { StoredEvent } from "@leafmesh/protocol";
import { isOpenCall } from "../calls/pending-calls.ts";
import { SealError } from "../security/sealer.ts";
import { type CallRecord, OPEN_CALL_STATES } from "../storage/contract.ts";
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

/** The session's calls that wait for the client, oldest first, as frames bring them. */
export async function openDeviceToolCalls(
  services: BridgeServices,
  sessionId: string,
): Promise<readonly CallEvent["payload"][]> {
  const calls = await services.backend.calls({ sessionId, faces: ["bridge"], states: OPEN_CALL_STATES });
  return calls.flatMap((call) => {
    const call_token = tokenOf(services, call);
    if (call_token === undefined) return [];
    const args = call.arguments as CallEvent["payload"]["args"];
    return [{ call_id: call.id, call_token, tool_id: call.tool, args, expires_at: call.expiresAt / 1000 }];
  });
}

function tokenOf(services: BridgeServices, call: CallRecord): string | undefined {
  if (!isOpenCall(call) || call.sealedToken === undefined || isPastDeadline(services, call)) return undefined;
  try {
    return services.sealer.open(call.sealedToken, tokenContext(call));
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    services.logger.error("the token of a device tool call does not open; the call runs into its deadline", {
      callId: call.id,
      error,
    });
    return undefined;
  }
}
