/**
 * One at a time among everything that shares a ledger: tabs of a browser, executors of one program. A lock that is held shows
 * that a call which was begun is still under way; one that is free, that whoever began it is gone.
 */

/** The part of the Web Locks API that is needed (https://w3c.github.io/web-locks/). */
export interface Locks {
  request<Value>(
    name: string,
    options: { readonly ifAvailable: true },
    work: (lock: unknown) => Promise<Value>,
  ): Promise<Value>;
}

/** Runs `work` while holding `name`; false when somebody else holds it. Without locks nobody else is expected. */
export async function holding(locks: Locks | undefined, name: string, work: () => Promise<void>): Promise<boolean> {
  if (!locks) {
    await work();
    return true;
  }
  return locks.request(`leafmesh:${name}`, { ifAvailable: true }, async (lock) => {
    if (lock === null) return false;
    await work();
    return true;
  });
}
