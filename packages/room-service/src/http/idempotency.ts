/** What an `Idempotency-Key` stood for: the same key and body get the same room, another body is a mistake. */
export interface RememberedOpening<Result> {
  /** The request's body in one spelling. */
  readonly body: string;
  /** May still be under way, so that two requests at once get one room; `undefined` once the room has ended. */
  readonly result: Promise<Result> | undefined;
}

/** Bounded; the oldest are forgotten first. Keys of different owners do not meet. */
export class IdempotencyKeys<Result> {
  readonly #most: number;
  readonly #openings = new Map<string, RememberedOpening<Result>>();

  constructor(most: number) {
    this.#most = most;
  }

  find(owner: string, key: string): RememberedOpening<Result> | undefined {
    return this.#openings.get(nameOf(owner, key));
  }

  remember(owner: string, key: string, opening: RememberedOpening<Result>): void {
    const name = nameOf(owner, key);
    this.#openings.delete(name);
    this.#openings.set(name, opening);
    for (const oldest of this.#openings.keys()) {
      if (this.#openings.size <= this.#most) return;
      this.#openings.delete(oldest);
    }
  }

  /** Drops the result with its tokens, and keeps that the key was used. */
  end(owner: string, key: string): void {
    const opening = this.find(owner, key);
    if (opening) this.#openings.set(nameOf(owner, key), { body: opening.body, result: undefined });
  }

  forget(owner: string, key: string): void {
    this.#openings.delete(nameOf(owner, key));
  }

  get size(): number {
    return this.#openings.size;
  }
}

function nameOf(owner: string, key: string): string {
  return `${owner} ${key}`;
}
