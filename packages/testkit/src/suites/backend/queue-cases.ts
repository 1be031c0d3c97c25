import type { Backend, RunQueue } from "@leafmesh/core/storage";
import { describe, expect, it } from "vitest";
import { createRun, createSession } from "./records.ts";

/** Work that goes on until the test ends it, run by run. */
function createWorkshop() {
  const started: string[] = [];
  const running = new Map<string, () => void>();
  const waiting = new Set<() => void>();
  let most = 0;
  const work = (run: { runId: string }): Promise<void> =>
    new Promise((resolve) => {
      started.push(run.runId);
      running.set(run.runId, resolve);
      most = Math.max(most, running.size);
      for (const wake of waiting) wake();
    });
  return {
    started,
    running,
    work,
    get mostAtOnce() {
      return most;
    },
    finish(runId: string) {
      const resolve = running.get(runId);
      running.delete(runId);
      resolve?.();
    },
    async untilStarted(count: number) {
      while (started.length < count) await new Promise<void>((resolve) => waiting.add(resolve));
    },
  };
}

/** Time in which a queue would have started what it may not start. */
const aMoment = () => new Promise((resolve) => setTimeout(resolve, 20));

export function queueCases(backend: () => Backend): void {
  const queue = (): RunQueue => backend().queue;
  const store = async (...runs: readonly (readonly [runId: string, sessionId: string])[]) => {
    for (const sessionId of new Set(runs.map((run) => run[1]))) await backend().commit([createSession(sessionId)]);
    for (const [runId, sessionId] of runs) await backend().commit([createRun(runId, sessionId)]);
  };
  const push = async (...runs: readonly (readonly [runId: string, sessionId: string])[]) => {
    for (const [runId, sessionId] of runs) await queue().push({ runId, sessionId });
  };

  describe("the queue", () => {
    it("takes a session's runs in order of push, one at a time, while other sessions go on", async () => {
      const runs = [
        ["a1", "a"],
        ["a2", "a"],
        ["a3", "a"],
        ["b1", "b"],
        ["c1", "c"],
      ] as const;
      await store(...runs);
      const shop = createWorkshop();
      await queue().start({ concurrency: 10, work: shop.work });
      await push(...runs);
      await shop.untilStarted(3);
      await aMoment();
      expect(new Set(shop.started)).toEqual(new Set(["a1", "b1", "c1"]));
      shop.finish("b1");
      shop.finish("a1");
      await shop.untilStarted(4);
      expect(shop.started.at(-1)).toBe("a2");
      shop.finish("a2");
      await shop.untilStarted(5);
      expect(shop.started.at(-1)).toBe("a3");
      for (const runId of ["a3", "c1"]) shop.finish(runId);
      await queue().stop();
    });

    it("never has more in hand than its concurrency, and loses none", async () => {
      const runs = Array.from({ length: 30 }, (_, index) => [`r${index}`, `s${index % 7}`] as const);
      await store(...runs);
      const shop = createWorkshop();
      await push(...runs.slice(0, 10));
      await queue().start({ concurrency: 4, work: shop.work });
      await push(...runs.slice(10));
      for (let done = 1; done <= 30; done++) {
        await shop.untilStarted(done);
        const [runId = ""] = shop.running.keys();
        shop.finish(runId);
      }
      await queue().stop();
      expect(shop.mostAtOnce).toBeLessThanOrEqual(4);
      expect(shop.started).toHaveLength(30);
      expect(new Set(shop.started).size).toBe(30);
      for (let session = 0; session < 7; session++) {
        const ofSession = runs.filter((run) => run[1] === `s${session}`).map((run) => run[0]);
        expect(shop.started.filter((runId) => ofSession.some((own) => own === runId))).toEqual(ofSession);
      }
    });

    it("stops by waiting for what is in hand, and goes on where it stopped", async () => {
      await store(["a1", "a"], ["b1", "b"]);
      const shop = createWorkshop();
      await queue().start({ concurrency: 1, work: shop.work });
      await push(["a1", "a"], ["b1", "b"]);
      await shop.untilStarted(1);
      let stopped = false;
      const stop = queue()
        .stop()
        .then(() => {
          stopped = true;
        });
      await aMoment();
      expect(stopped).toBe(false);
      shop.finish("a1");
      await stop;
      await aMoment();
      expect(shop.started).toEqual(["a1"]);
      await queue().start({ concurrency: 1, work: shop.work });
      await shop.untilStarted(2);
      shop.finish("b1");
      await queue().stop();
      expect(shop.started).toEqual(["a1", "b1"]);
    });

    it("does not hold one run twice while it waits, and takes it again when it is pushed while in hand", async () => {
      await store(["a1", "a"]);
      const shop = createWorkshop();
      await push(["a1", "a"], ["a1", "a"]);
      await queue().start({ concurrency: 2, work: shop.work });
      await shop.untilStarted(1);
      await push(["a1", "a"]);
      await aMoment();
      expect(shop.started).toEqual(["a1"]);
      shop.finish("a1");
      await shop.untilStarted(2);
      shop.finish("a1");
      await aMoment();
      await queue().stop();
      expect(shop.started).toEqual(["a1", "a1"]);
    });

    it("does not count a parked run, keeps its session taken, and takes it again before others", async () => {
      await store(["a1", "a"], ["a2", "a"], ["b1", "b"], ["c1", "c"]);
      const shop = createWorkshop();
      const parked = Promise.withResolvers<void>();
      let visits = 0;
      await queue().start({
        concurrency: 1,
        async work(run) {
          if (run.runId === "a1" && ++visits === 1) return { onAwake: (wake) => void parked.promise.then(wake) };
          await shop.work(run);
        },
      });
      await push(["a1", "a"], ["a2", "a"], ["b1", "b"], ["c1", "c"]);
      await shop.untilStarted(1);
      expect(shop.started).toEqual(["b1"]);
      parked.resolve();
      await aMoment();
      expect(shop.started, "the one worker is at work").toEqual(["b1"]);
      shop.finish("b1");
      await shop.untilStarted(2);
      expect(shop.started).toEqual(["b1", "a1"]);
      shop.finish("a1");
      for (let started = 3; started <= 4; started++) {
        await shop.untilStarted(started);
        shop.finish(shop.started[started - 1] ?? "");
      }
      await queue().stop();
      expect(shop.started.slice(2).sort()).toEqual(["a2", "c1"]);
      expect(shop.mostAtOnce).toBe(1);
    });

    it("stops by waiting for parked runs, too", async () => {
      await store(["a1", "a"]);
      const parked = Promise.withResolvers<void>();
      const visited = Promise.withResolvers<void>();
      let visits = 0;
      await queue().start({
        concurrency: 1,
        async work() {
          visits++;
          visited.resolve();
          return visits === 1 ? { onAwake: (wake) => void parked.promise.then(wake) } : undefined;
        },
      });
      await push(["a1", "a"]);
      await visited.promise;
      const stopped = queue().stop();
      await aMoment();
      expect(visits).toBe(1);
      parked.resolve();
      await stopped;
      expect(visits).toBe(2);
    });

    it("survives work that rejects", async () => {
      await store(["a1", "a"], ["a2", "a"]);
      const done: string[] = [];
      await queue().start({
        concurrency: 1,
        async work({ runId }) {
          done.push(runId);
          throw new Error("a bug");
        },
      });
      await push(["a1", "a"], ["a2", "a"]);
      while (done.length < 2) await aMoment();
      await queue().stop();
      expect(done).toEqual(["a1", "a2"]);
    });

    it("lets work commit and push", async () => {
      await store(["a1", "a"], ["a2", "a"], ["b1", "b"]);
      const done: string[] = [];
      let finished = () => {};
      const all = new Promise<void>((resolve) => {
        finished = resolve;
      });
      await queue().start({
        concurrency: 2,
        async work({ runId, sessionId }) {
          await backend().commit([{ kind: "run.update", runId, version: 1, patch: { status: "succeeded" } }]);
          done.push(runId);
          if (runId === "a1") await push(["a2", sessionId], ["b1", "b"]);
          if (done.length === 3) finished();
        },
      });
      await push(["a1", "a"]);
      await all;
      await queue().stop();
      expect((await backend().runs({ statuses: ["succeeded"] })).map((run) => run.id).sort()).toEqual([
        "a1",
        "a2",
        "b1",
      ]);
    });
  });
}
