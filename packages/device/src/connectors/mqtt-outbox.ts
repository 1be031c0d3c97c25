/** What the device has sent into an MQTT room and the broker has not yet acknowledged. */
import type { Link, Published, Sealer } from "@leafmesh/mqtt/wire";
import type { DeviceEnvelope } from "@leafmesh/protocol";

interface Entry {
  readonly envelope: DeviceEnvelope;
  readonly number: number;
  /** Sealed once: sent again, it is a repeat that the mesh drops. */
  frame?: Uint8Array | undefined;
  /** The link it is under way on. */
  sentOn?: Link | undefined;
}

export interface MqttOutboxOptions {
  readonly sealer: Sealer;
  readonly topic: string;
  readonly expirySeconds: number;
  /** Something was acknowledged, or cannot be: look again at {@link MqttOutbox.ackedNumber}. */
  readonly changed: () => void;
  /** The broker took it, and the mesh is not there. */
  readonly unheard: () => void;
  /** The broker does not let this device send here. */
  readonly refused: (why: string) => void;
}

export interface MqttOutbox {
  readonly waiting: number;
  readonly lastNumber: number;
  /** Everything up to here has arrived. */
  readonly ackedNumber: number;
  add(envelope: DeviceEnvelope): void;
  /** Sends over `link` what is not under way on it, in order. Never rejects. */
  flush(link: Link): Promise<void>;
}

export function createMqttOutbox(options: MqttOutboxOptions): MqttOutbox {
  const { sealer, topic, expirySeconds, changed, unheard, refused } = options;
  let entries: Entry[] = [];
  let lastNumber = 0;
  let flushing: Promise<void> = Promise.resolve();

  const answered = (entry: Entry, link: Link, published: Published): void => {
    if (entry.sentOn !== link) return;
    entry.sentOn = undefined;
    if (published.status === "refused") {
      refused(published.failure.message);
    } else if (published.status === "acknowledged" && published.reached) {
      entries = entries.filter((each) => each !== entry);
      changed();
    } else if (published.status === "acknowledged") {
      // Nobody has this frame, so it is not a repeat: it gets a number behind those that were heard meanwhile.
      entry.frame = undefined;
      unheard();
    } else if (link.open) {
      void flush(link);
    }
  };

  const send = async (link: Link): Promise<void> => {
    for (const entry of entries) {
      if (!link.open) return;
      if (entry.sentOn === link) continue;
      entry.frame ??= await sealer.seal(JSON.stringify(entry.envelope));
      entry.sentOn = link;
      void link
        .publish({ topic, payload: entry.frame, expirySeconds })
        .then((published) => answered(entry, link, published));
    }
  };

  const flush = (link: Link): Promise<void> => {
    flushing = flushing.then(() => send(link));
    return flushing;
  };

  return {
    get waiting() {
      return entries.length;
    },
    get lastNumber() {
      return lastNumber;
    },
    get ackedNumber() {
      return (entries[0]?.number ?? lastNumber + 1) - 1;
    },
    add(envelope) {
      entries.push({ envelope, number: ++lastNumber });
    },
    flush,
  };
}
