/** Items in the order in which they came, for a test that waits for the next one and never sleeps. */
export class Mailbox<Item> {
  readonly #items: Item[] = [];
  readonly #readers: (() => void)[] = [];

  /** Resolves when the source has ended; what it brought is still there to be taken. */
  readonly ended: Promise<void>;

  constructor(source?: AsyncIterable<Item>) {
    this.ended = source ? this.#read(source) : Promise.resolve();
  }

  put(item: Item): void {
    this.#items.push(item);
    for (const wake of this.#readers.splice(0)) wake();
  }

  /** The next item that fits; what came before it and does not fit is passed over. */
  async next<Fitting extends Item>(fits: (item: Item) => item is Fitting): Promise<Fitting>;
  async next(fits?: (item: Item) => boolean): Promise<Item>;
  async next(fits: (item: Item) => boolean = () => true): Promise<Item> {
    for (;;) {
      while (this.#items.length > 0) {
        const item = this.#items.shift() as Item;
        if (fits(item)) return item;
      }
      await new Promise<void>((resolve) => this.#readers.push(resolve));
    }
  }

  /** Everything that has come and was not taken. */
  takeAll(): Item[] {
    return this.#items.splice(0);
  }

  async #read(source: AsyncIterable<Item>): Promise<void> {
    for await (const item of source) this.put(item);
  }
}
