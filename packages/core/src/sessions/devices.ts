/** The devices of a conversation, with their push tokens opened. */
import type { Capability, Secret } from "@leafmesh/protocol";

export interface ConversationDevice {
  readonly id: string;
  readonly name?: string | undefined;
  readonly platform?: string | undefined;
  /** `undefined`: the device declared nothing, so any action name is accepted. */
  readonly capabilities?: readonly Capability[] | undefined;
  readonly pushToken: Secret;
}

export interface DeviceDirectory {
  /** In the order the conversation brought them. Empty when there are none or the session has ended. */
  list(sessionId: string): Promise<readonly ConversationDevice[]>;
}
