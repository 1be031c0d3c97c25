/** What comes to the mesh on a room's topics: opened, checked, in order, each message once. */
import type { Incoming } from "@leafmesh/mqtt";
import {
  createInbox,
  createOpener,
  FRAME_OVERHEAD_BYTES,
  type Presence,
  parsePresence,
  type RoomKey,
  type RoomTopics,
} from "@leafmesh/mqtt/wire";
import { type DeviceEnvelope, MAX_ENVELOPE_BYTES, parseFromDevice } from "@leafmesh/protocol";

/** Messages that may wait to be opened. */
const MAX_WAITING = 256;

/** None of them may throw. */
export interface RoomReceiverHandlers {
  presence(presence: Presence): void;
  envelope(envelope: DeviceEnvelope): void;
  /** Something that this room's device did not send, or that cannot be understood. Redelivery is not told. */
  dropped(why: string): void;
}

export interface RoomReceiver {
  push(message: Incoming): void;
  close(): void;
}

export function createRoomReceiver(key: RoomKey, topics: RoomTopics, handlers: RoomReceiverHandlers): RoomReceiver {
  const { presence: presenceTopic, up } = topics;
  const openers = new Map([up, presenceTopic].map((topic) => [topic, createOpener(key, topic)]));

  const receive = async ({ topic, payload, retained }: Incoming): Promise<void> => {
    if (payload.byteLength > MAX_ENVELOPE_BYTES + FRAME_OVERHEAD_BYTES) return handlers.dropped("too large");
    if (retained && topic !== presenceTopic) return handlers.dropped("retained by the broker");
    const opened = await openers.get(topic)?.open(payload);
    if (!opened?.ok) {
      // Redelivery is what QoS 1 is.
      if (opened?.why !== "repeated") handlers.dropped(opened?.why ?? "not of this room");
      return;
    }
    if (topic === presenceTopic) {
      const presence = parsePresence(opened.text);
      if (presence) handlers.presence(presence);
      else handlers.dropped("not a presence message");
      return;
    }
    const envelope = parseFromDevice(opened.text);
    if (envelope) handlers.envelope(envelope);
    else handlers.dropped("not an envelope");
  };

  const inbox = createInbox<Incoming>(MAX_WAITING, receive);
  return {
    push(message) {
      // An empty message is how a retained one is cleared, by this very room.
      if (message.payload.byteLength === 0) return;
      if (!inbox.push(message)) handlers.dropped("more messages than can be read");
    },
    close: inbox.close,
  };
}
