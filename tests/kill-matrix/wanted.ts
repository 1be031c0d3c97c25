/** What the model asks for, and the names that the executor goes by. */
/** Where an act comes from. `room`: a device in the room of the very mesh; `rooms service`: in one that outlives it. */
export type Face = "room" | "rooms service" | "bridge" | "client";

export const JOURNAL = "journal";
export const DEVICE = { id: "phone-7", push_token: "token-of-phone-7" };
export const ACT = { action: "battery.read", deviceTool: "device_act", clientTool: "act" };

/** One thing to be done. The number is its own in the whole conversation. */
export interface Wanted {
  readonly number: number;
  /** The executor does not answer before it is told to. */
  readonly hold?: boolean;
}

/** What the model is to ask for, turn by turn. */
export type Play = readonly (readonly Wanted[])[];

/** The message that makes the model do it. */
export function messageFor(play: Play): string {
  return `DO ${JSON.stringify(play)}`;
}

export function toolCallFor(face: Face, wanted: Wanted): { name: string; arguments: Record<string, unknown> } {
  switch (face) {
    case "room":
    case "rooms service":
      return { name: "device_action", arguments: { action: ACT.action, inputs: wanted } };
    case "bridge":
      return { name: ACT.deviceTool, arguments: { ...wanted } };
    case "client":
      return { name: ACT.clientTool, arguments: { ...wanted } };
  }
}
