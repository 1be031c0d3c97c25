/** Takes `burst` at once and `perSecond` in the long run. Time comes from the caller, monotonic. */
export class TokenBucket {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #countedAtMs: number;

  constructor(limits: { readonly burst: number; readonly perSecond: number }, nowMs: number) {
    this.#burst = limits.burst;
    this.#perSecond = limits.perSecond;
    this.#left = limits.burst;
    this.#countedAtMs = nowMs;
  }

  /** Takes one, or answers after how many milliseconds there will be one. */
  take(nowMs: number): { readonly taken: true } | { readonly taken: false; readonly retryAfterMs: number } {
    this.#left = this.#filledTo(nowMs);
    this.#countedAtMs = nowMs;
    if (this.#left >= 1) {
      this.#left -= 1;
      return { taken: true };
    }
    return { taken: false, retryAfterMs: Math.ceil(((1 - this.#left) / this.#perSecond) * 1000) };
  }

  /** Pays back time in which nothing could be taken, over the burst as well. */
  credit(ms: number): void {
    this.#left += (ms / 1000) * this.#perSecond;
  }

  /** Whether it is as good as new, so that it can be forgotten. */
  isFull(nowMs: number): boolean {
    return this.#filledTo(nowMs) >= this.#burst;
  }

  #filledTo(nowMs: number): number {
    const most = Math.max(this.#burst, this.#left);
    return Math.min(most, this.#left + ((nowMs - this.#countedAtMs) / 1000) * this.#perSecond);
  }
}

/** One bucket per name, bounded: a bucket that has filled up again is forgotten, the oldest goes first when it gets tight. */
export class TokenBuckets {
  readonly #limits: { readonly burst: number; readonly perSecond: number };
  readonly #most: number;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(limits: { readonly burst: number; readonly perSecond: number }, most = 10_000) {
    this.#limits = limits;
    this.#most = most;
  }

  take(name: string, nowMs: number): ReturnType<TokenBucket["take"]> {
    let bucket = this.#buckets.get(name);
    if (!bucket) {
      if (this.#buckets.size >= this.#most) this.#makeRoom(nowMs);
      bucket = new TokenBucket(this.#limits, nowMs);
      this.#buckets.set(name, bucket);
    }
    return bucket.take(nowMs);
  }

  #makeRoom(nowMs: number): void {
    for (const [name, bucket] of this.#buckets) {
      if (bucket.isFull(nowMs)) this.#buckets.delete(name);
    }
    // A tenth at a time: this walk must not happen at every new name.
    const target = Math.floor(this.#most * 0.9);
    for (const name of this.#buckets.keys()) {
      if (this.#buckets.size <= target) return;
      this.#buckets.delete(name);
    }
  }

  get size(): number {
    return this.#buckets.size;
  }
}
