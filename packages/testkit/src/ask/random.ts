/** Numbers that look random and come out the same for the same seed. Not for secrets. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** True with probability `share`. */
  chance(share: number): boolean;
  /** A whole number from `low` up to and including `high`. */
  between(low: number, high: number): number;
  pick<Value>(values: readonly [Value, ...Value[]]): Value;
}

/** Mulberry32: https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const between = (low: number, high: number): number => low + Math.floor(next() * (high - low + 1));
  return {
    next,
    between,
    chance: (share) => next() < share,
    pick: (values) => values[between(0, values.length - 1)] ?? values[0],
  };
}
