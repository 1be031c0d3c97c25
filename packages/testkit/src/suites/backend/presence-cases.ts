import type { Backend } from "@leafmesh/core/storage";
import { describe, expect, it } from "vitest";
import { createSession } from "./records.ts";

export function presenceCases(backend: () => Backend, reopen: (() => Promise<Backend>) | undefined): void {
  describe("presence", () => {
    it("counts the streams of a session, and its executors, until they are closed", async () => {
      await backend().commit([createSession("s"), createSession("other")]);
      expect(await backend().presence("s")).toEqual({ streams: 0, executors: 0, executorDeclared: false });
      const viewer = await backend().attachStream("s", { executor: false });
      const executor = await backend().attachStream("s", { executor: true });
      expect(await backend().presence("s")).toMatchObject({ streams: 2, executors: 1, executorDeclared: true });
      expect(await backend().presence("other")).toMatchObject({ streams: 0, executorDeclared: false });

      await executor.close();
      await executor.close();
      const left = await backend().presence("s");
      expect(left).toMatchObject({ streams: 1, executors: 0, executorDeclared: true });
      expect(left.executorLeftAt).toEqual(left.streamLeftAt);
      expect(left.executorLeftAt).toEqual(expect.any(Number));
      await viewer.close();
      expect(await backend().presence("s")).toMatchObject({ streams: 0, executorLeftAt: left.executorLeftAt });
    });

    it("tells the session's listeners when it changes", async () => {
      await backend().commit([createSession("s"), createSession("other")]);
      let changes = 0;
      let wake = () => {};
      const reached = async (count: number) => {
        while (changes < count) await new Promise<void>((resolve) => (wake = resolve));
      };
      const stop = backend().subscribe("s", {
        onEvents() {},
        onTransient() {},
        onPresence() {
          changes++;
          wake();
        },
      });
      const stream = await backend().attachStream("s", { executor: false });
      await reached(1);
      await stream.close();
      await reached(2);
      const elsewhere = await backend().attachStream("other", { executor: false });
      await elsewhere.close();
      stop();
      expect(changes).toBe(2);
    });

    if (!reopen) return;
    it("remembers across a restart that the session had an executor, and no stream", async () => {
      await backend().commit([createSession("s")]);
      await backend().attachStream("s", { executor: true });
      const again = await reopen();
      expect(await again.presence("s")).toMatchObject({ streams: 0, executors: 0, executorDeclared: true });
    });
  });
}
