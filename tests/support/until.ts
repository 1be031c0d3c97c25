/** What `probe` answers once it answers something; asks again every 20 ms, for 30 s unless told otherwise. */
export async function until<Value>(
  what: string,
  probe: () => Promise<Value | undefined>,
  withinMs = 30_000,
): Promise<Value> {
  const end = performance.now() + withinMs;
  for (;;) {
    const value = await probe();
    if (value !== undefined) return value;
    if (performance.now() > end) throw new Error(`${what} did not come about within ${withinMs / 1000} s`);
    await new Promise((next) => setTimeout(next, 20));
  }
}
