/** A bounded queue with one writer and one reader. */
export interface EventQueue<Item> extends AsyncIterable<Item> {
  /** False when the queue is full or has ended: the item was dropped. */
  push(item: Item): boolean;
  /** What was pushed before is still read, then `last` if it is given; the reader then ends. Idempotent. */
  end(last?: Item): void;
}

/** `limit` is how many items may wait for the reader. */
export function createEventQueue<Item>(limit: number): EventQueue<Item> {
  const items: Item[] = [];
  let ended = false;
  let wake: (() => void) | undefined;

  const signalReader = (): void => {
    wake?.();
    wake = undefined;
  };

  return {
    push(item) {
      if (ended || items.length >= limit) return false;
      items.push(item);
      signalReader();
      return true;
    },
    end(last) {
      if (!ended && last !== undefined) items.push(last);
      ended = true;
      signalReader();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const item = items.shift();
        if (item !== undefined) {
          yield item;
          continue;
        }
        if (ended) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
