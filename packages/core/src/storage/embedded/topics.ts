export interface Topics<Listener extends object> {
  subscribe(topic: string, listener: Listener): () => void;
  deliver(topic: string, call: (listener: Listener) => void): void;
}

/**
 * Listeners by topic. One that throws is reported and keeps its subscription; one that causes another delivery while it
 * is called gets that after the others have seen what came before.
 */
export function createTopics<Listener extends object>(
  onThrown: (topic: string, error: unknown) => void,
): Topics<Listener> {
  /** A subscription is an object of its own, so that one listener may be subscribed twice and let go once. */
  const topics = new Map<string, Set<{ readonly listener: Listener }>>();
  const queue: { readonly topic: string; readonly call: (listener: Listener) => void }[] = [];
  let delivering = false;

  return {
    subscribe(topic, listener) {
      const own = { listener };
      const ofTopic = topics.get(topic) ?? new Set();
      topics.set(topic, ofTopic.add(own));
      return () => {
        ofTopic.delete(own);
        if (ofTopic.size === 0 && topics.get(topic) === ofTopic) topics.delete(topic);
      };
    },
    deliver(topic, call) {
      if (!topics.has(topic)) return;
      queue.push({ topic, call });
      if (delivering) return;
      delivering = true;
      for (let next = queue.shift(); next; next = queue.shift()) {
        for (const own of [...(topics.get(next.topic) ?? [])]) {
          if (!topics.get(next.topic)?.has(own)) continue;
          try {
            next.call(own.listener);
          } catch (error) {
            onThrown(next.topic, error);
          }
        }
      }
      delivering = false;
    },
  };
}
