/** Runs work one at a time per key, in order of arrival. Holds nothing for a key that nobody uses. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>();

  async run<Value>(key: string, work: () => Promise<Value>): Promise<Value> {
    const before = this.#tails.get(key);
    const mine = before ? before.then(work, work) : work();
    const tail = mine.catch(() => {});
    this.#tails.set(key, tail);
    try {
      return await mine;
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }
}
