/** A bounded queue with one writer and one reader. */
export interface EventQueue<Item> extends AsyncIterable<Item> {
  /** False when the queue is full or has ended: the item was dropped. */
  push(item: Item): boolean;
  /** What was pushed before is still read, then `last` if it is given; the reader then ends. Idempotent. */
  end(last?: Item): void;
}

/** `limit` is how many items may wait for the reader. */
export function createEventQueue<Item>(limit: number): EventQueue<Item> {
  return new Queue(limit);
}

/** Its own iterator and no generator: a reader that waits is all that most rooms are, for most of their life. */
class Queue<Item> implements EventQueue<Item>, AsyncIterator<Item, undefined> {
  readonly #limit: number;
  readonly #items: Item[] = [];
  #ended = false;
  #waiting: ((result: IteratorResult<Item, undefined>) => void) | undefined;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(item: Item): boolean {
    if (this.#ended) return false;
    if (this.#waiting) this.#hand({ done: false, value: item });
    else if (this.#items.length < this.#limit) this.#items.push(item);
    else return false;
    return true;
  }

  end(last?: Item): void {
    if (this.#ended) return;
    this.#ended = true;
    if (last !== undefined) this.#items.push(last);
    if (this.#waiting) this.#hand(this.#next() ?? { done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Item, undefined>> {
    const next = this.#next();
    if (next) return Promise.resolve(next);
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** `undefined` while there is nothing to read. */
  #next(): IteratorResult<Item, undefined> | undefined {
    const item = this.#items.shift();
    if (item !== undefined) return { done: false, value: item };
    return this.#ended ? { done: true, value: undefined } : undefined;
  }

  #hand(result: IteratorResult<Item, undefined>): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.(result);
  }
}
