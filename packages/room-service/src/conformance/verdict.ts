/** Thrown by a test: the service does not keep the protocol. `message` says what was expected and what came instead. */
export class Failure extends Error {
  override readonly name = "Failure";
}

/** Thrown by a test that cannot be judged on this service. */
export class Skipped extends Error {
  override readonly name = "Skipped";
}

export function expectThat(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Failure(otherwise);
}

/** `what` is the thing that was looked at: "the status of DELETE". */
export function expectEqual<Value>(actual: Value, expected: Value, what: string): void {
  const [was, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (was !== wanted) throw new Failure(`${what}: expected ${wanted}, got ${shortened(was ?? "nothing")}`);
}

export function expectOneOf<Value>(actual: Value, expected: readonly Value[], what: string): void {
  if (!expected.includes(actual)) {
    throw new Failure(`${what}: expected one of ${expected.join(", ")}, got ${String(actual)}`);
  }
}

/** `promise`, or a {@link Failure} when it takes longer. The timer is gone either way. */
export async function within<Value>(promise: Promise<Value>, ms: number, otherwise: () => string): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Failure(otherwise())), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export function pauseFor(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function shortened(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
