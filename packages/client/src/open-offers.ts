/**
 * What a stream has offered and not yet taken back: calls of tools, suspensions. The position to come back to lies before
 * the oldest of them, so that whoever begins there is offered each again.
 */
export class OpenOffers {
  /** Offers by their name, in the order in which they came. */
  readonly #seqs = new Map<string, number>();
  #handled: number;

  constructor(after: number) {
    this.#handled = after;
  }

  /** All that a mesh lets be open at once, many times over; a stream that takes nothing back does not grow without end. */
  static readonly #LIMIT = 4_096;

  open(name: string, seq: number): void {
    this.#seqs.set(name, seq);
    if (this.#seqs.size <= OpenOffers.#LIMIT) return;
    const oldest = this.#seqs.keys().next();
    if (!oldest.done) this.#seqs.delete(oldest.value);
  }

  close(name: string): void {
    this.#seqs.delete(name);
  }

  closeAll(): void {
    this.#seqs.clear();
  }

  /** Frame number `seq` was passed on and its reader has come for the next. */
  handled(seq: number): void {
    this.#handled = seq;
  }

  /** Number of the last frame that need not come again. */
  get cursor(): number {
    return this.before(this.#handled);
  }

  /** `seq`, or the place before the oldest open offer if that is earlier. */
  before(seq: number): number {
    const oldest = this.#seqs.values().next();
    return oldest.done ? seq : Math.min(seq, oldest.value - 1);
  }
}
