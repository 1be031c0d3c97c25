/** What `probe` answers once it answers something; asks again every 20 ms, for 30 s at most. */
export async function until<Value>(what: string, probe: () => Promise<Value | undefined>): Promise<Value> {
  const end = performance.now() + 30_000;
  for (;;) {
    const value = await probe();
    if (value !== undefined) return value;
    if (performance.now() > end) throw new Error(`${what} did not come about within 30 s`);
    await new Promise((next) => setTimeout(next, 20));
  }
}
