/** The device tool bridge: tools that a client declares on a session and answers over its event stream. */
import type { Clock, Logger, NewId, SessionEventPayload, StoredEvent } from "@leafmesh/protocol";
import type { PendingCalls } from "../calls/pending-calls.ts";
import type { Sealer } from "../security/sealer.ts";
import type { Backend } from "../storage/contract.ts";
import type { ToolProvider } from "../tools/contract.ts";
import { answerDeviceTool, type DeviceToolAnswer, type DeviceToolAnswered } from "./answer-call.ts";
import type { BridgeServices } from "./bridge-services.ts";
import { isDeviceToolCall, openDeviceToolCalls, withCallToken } from "./call-tokens.ts";
import { createDeviceTool } from "./device-tool.ts";

export interface DeviceToolBridge {
  /** Gives a run the tools that were frozen with it. */
  readonly provider: ToolProvider;
  answer(answer: DeviceToolAnswer): Promise<DeviceToolAnswered>;
  /** The session's calls that wait for the client, with the tokens that answer them. */
  openCalls(sessionId: string): Promise<readonly SessionEventPayload<"device_tool_call">[]>;
  /** The event as it goes to a stream of the session's owner; `undefined` when it goes as it is. */
  forStream(event: StoredEvent): Promise<StoredEvent> | undefined;
}

export interface BridgeOptions {
  readonly backend: Backend;
  readonly calls: PendingCalls;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly logger: Logger;
}

export function createDeviceToolBridge(options: BridgeOptions): DeviceToolBridge {
  const services: BridgeServices = { ...options, deadlines: new Map(), opening: new Map() };
  return {
    provider: {
      async toolsFor(_agent, { deviceTools = [] }) {
        return deviceTools.map((declared) => createDeviceTool(services, declared));
      },
    },
    answer: (answer) => answerDeviceTool(services, answer),
    openCalls: (sessionId) => openDeviceToolCalls(services, sessionId),
    forStream: (event) => (isDeviceToolCall(event) ? withCallToken(services, event) : undefined),
  };
}
