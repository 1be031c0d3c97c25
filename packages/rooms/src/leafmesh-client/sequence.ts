/** A frame that a seat sends, before it has a number. */
export interface Body {
  readonly type: string;
  readonly [field: string]: unknown;
}

export type Numbered = Body & { readonly seq: number };

/** Numbers of one seat, on the client's side: its own frames until the service has stored them, and how far it has read. */
export class Sequence {
  #next = 1;
  #received = 0;
  #unstored: Numbered[] = [];

  /** The last number that came; what a resume says in `recv`. */
  get received(): number {
    return this.#received;
  }

  add(body: Body): Numbered {
    const frame = { ...body, seq: this.#next++ };
    this.#unstored.push(frame);
    return frame;
  }

  /** The service has everything up to `seq`. */
  stored(seq: number): void {
    this.#unstored = this.#unstored.filter((frame) => frame.seq > seq);
  }

  /** What the service has to get again, when it says how far it has stored. */
  unstored(recv: number): readonly Numbered[] {
    this.stored(recv);
    return this.#unstored;
  }

  take(seq: number): "new" | "repeat" | "gap" {
    if (seq <= this.#received) return "repeat";
    if (seq > this.#received + 1) return "gap";
    this.#received = seq;
    return "new";
  }

  /** A seat that was taken anew: what comes counts from 1, what goes counts on from what the service has. */
  startAnew(recv: number): void {
    this.#received = 0;
    this.#next = Math.max(this.#next, recv + 1);
  }
}
