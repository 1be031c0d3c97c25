/** Waiting times between tries: doubling, capped, and spread so that many devices do not come back in one moment. */
export interface Backoff {
  /** Milliseconds to wait before the next try. */
  nextMs(): number;
  /** A try worked: the next wait is the first one again. */
  reset(): void;
}

export interface BackoffOptions {
  readonly firstMs: number;
  readonly longestMs: number;
  /** 0 to 1, exclusive; `Math.random` outside tests. */
  readonly random: () => number;
}

export function createBackoff({ firstMs, longestMs, random }: BackoffOptions): Backoff {
  let tries = 0;
  return {
    nextMs() {
      const whole = Math.min(firstMs * 2 ** Math.min(tries++, 30), longestMs);
      return Math.round(whole * (0.5 + random() / 2));
    },
    reset() {
      tries = 0;
    },
  };
}
