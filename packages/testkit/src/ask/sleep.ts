import type { Clock } from "@leafmesh/protocol";

export function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.schedule(ms, resolve));
}
