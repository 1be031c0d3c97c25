import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { memoryBackend, recordingLogger } from "../runs/testing/index.ts";
import { SessionSweep } from "./sweep.ts";

const HOUR = 3_600_000;

async function sweeping(sessions: number, end?: (sessionId: string) => Promise<void>) {
  const clock = createFakeClock();
  const backend = await memoryBackend(clock);
  const at = clock.nowMs();
  for (let index = 0; index < sessions; index++) {
    const session = { id: `s${index}`, meshName: "m", entryPoint: "e", createdAt: at, lastActiveAt: at, context: {} };
    await backend.commit([{ kind: "session.create", session }]);
  }
  const logger = recordingLogger();
  const ended: string[] = [];
  const sweep = new SessionSweep({
    backend,
    clock,
    logger,
    ttlMs: () => HOUR,
    async end(sessionId) {
      await end?.(sessionId);
      ended.push(sessionId);
      await backend.commit([{ kind: "session.end", sessionId, at: clock.nowMs() }]);
    },
  });
  return { clock, backend, logger, sweep, ended };
}

describe("SessionSweep", () => {
  it("ends more sessions than one page holds", async () => {
    const { clock, sweep, ended, logger } = await sweeping(250);
    await clock.advance(2 * HOUR);
    await sweep.start();
    expect(new Set(ended).size).toBe(250);
    expect(logger.lines).toMatchObject([{ level: "info", fields: { count: 250 } }]);
  });

  it("is tried again in an hour when it fails", async () => {
    let away = true;
    const { clock, sweep, ended, logger } = await sweeping(1, async () => {
      if (away) throw new Error("the store is away");
    });
    await clock.advance(2 * HOUR);
    await sweep.start();
    expect(ended).toEqual([]);
    expect(logger.lines).toMatchObject([{ level: "error" }]);
    away = false;
    await clock.advance(HOUR);
    expect(ended).toEqual(["s0"]);
    sweep.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  it("ends nothing more once it is stopped", async () => {
    const { clock, sweep, ended } = await sweeping(3, async () => sweep.stop());
    await clock.advance(2 * HOUR);
    await sweep.start();
    expect(ended).toEqual(["s0"]);
    expect(clock.pendingTimers).toBe(0);
  });
});
