/** Events for one reader, in the order they came. */
export class EventQueue<Event> implements AsyncIterable<Event> {
  readonly #waiting: Event[] = [];
  #wake: (() => void) | undefined;
  #isOver = false;

  /** Ignored once the queue is over. */
  push(event: Event): void {
    if (this.#isOver) return;
    this.#waiting.push(event);
    this.#wake?.();
  }

  /** What waits is still read; then the reader is done. */
  end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) yield next;
      else if (this.#isOver) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
