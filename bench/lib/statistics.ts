/** The numbers of a table: percentiles of every single operation, medians of the repeats. */

export interface Summary {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** Nearest-rank percentile, `percent` from 0 to 100. `NaN` for no samples. */
export function percentile(sorted: ArrayLike<number>, percent: number): number {
  const rank = Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1);
  return sorted[Math.min(sorted.length - 1, rank)] ?? Number.NaN;
}

export function summarize(samples: readonly number[]): Summary {
  const sorted = Float64Array.from(samples).sort();
  return { p50: percentile(sorted, 50), p99: percentile(sorted, 99), max: sorted.at(-1) ?? Number.NaN };
}

export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Half the distance between the quartiles over the median: how much the repeats disagree. */
export function spread(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  return (percentile(sorted, 75) - percentile(sorted, 25)) / 2 / median(values);
}

export function round(value: number, digits = 1): number {
  const factor = 10 ** digits;
  return Math.round(value * factor) / factor;
}
