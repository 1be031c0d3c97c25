/** Who hears which topic, kept over reconnects. */
import type { SubscriptionHandlers } from "./connection.ts";
import type { MqttFailure } from "./failure.ts";
import type { Incoming, Link } from "./link.ts";

/** Filters in one SUBSCRIBE packet, so that the packet stays small. */
const BATCH = 200;

interface Entry {
  readonly topics: readonly string[];
  readonly handlers: SubscriptionHandlers;
  /** The broker has granted it in the current session. */
  confirmed: boolean;
}

export interface Registration {
  confirm(): void;
  /** Tells the broker too, over `link` if it is open, else when the session is resumed. Idempotent, never rejects. */
  remove(link: Link | undefined): Promise<void>;
}

export interface Subscriptions {
  readonly any: boolean;
  add(topics: readonly string[], handlers: SubscriptionHandlers): Registration;
  /** Hands a message to whoever subscribed to its topic; others are dropped. */
  readonly deliver: (message: Incoming) => void;
  /** Makes the new link's subscriptions what they should be. Throws what the link throws. */
  restore(link: Link): Promise<void>;
  /** Tells everybody that nothing more will come, and forgets them. */
  lose(failure: MqttFailure): void;
}

export function createSubscriptions(): Subscriptions {
  const entries = new Set<Entry>();
  const byTopic = new Map<string, Entry>();
  /** Removed while there was no connection: a resumed session still has them. */
  const stale = new Set<string>();

  const forget = (entry: Entry): boolean => {
    if (!entries.delete(entry)) return false;
    for (const topic of entry.topics) {
      byTopic.delete(topic);
      stale.add(topic);
    }
    return true;
  };

  return {
    get any() {
      return entries.size > 0;
    },
    add(topics, handlers) {
      const entry: Entry = { topics, handlers, confirmed: false };
      entries.add(entry);
      for (const topic of topics) {
        byTopic.set(topic, entry);
        stale.delete(topic);
      }
      return {
        confirm() {
          entry.confirmed = true;
        },
        async remove(link) {
          if (!forget(entry) || !link?.open) return;
          await link.unsubscribe(topics);
          if (link.open) for (const topic of topics) stale.delete(topic);
        },
      };
    },
    deliver(message) {
      byTopic.get(message.topic)?.handlers.message(message);
    },
    async restore(link) {
      if (!link.resumed) {
        for (const entry of entries) entry.confirmed = false;
        stale.clear();
      }
      const missing = [...entries].filter((entry) => !entry.confirmed);
      const topics = missing.flatMap((entry) => entry.topics);
      for (let from = 0; from < topics.length; from += BATCH) await link.subscribe(topics.slice(from, from + BATCH));
      for (const entry of missing) entry.confirmed = true;
      const unwanted = [...stale];
      stale.clear();
      await link.unsubscribe(unwanted);
    },
    lose(failure) {
      const all = [...entries];
      entries.clear();
      byTopic.clear();
      for (const { handlers } of all) handlers.lost(failure);
    },
  };
}
