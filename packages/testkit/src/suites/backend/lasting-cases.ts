import type { Backend } from "@leafmesh/core/storage";
import { describe, expect, it } from "vitest";
import { aDevice, anUpload, appendEvent, appendMessage, createCall, T0 } from "./records.ts";

export function lastingCases(backend: () => Backend, reopen: () => Promise<Backend>): void {
  describe("a store that is opened again", () => {
    it("holds everything that was committed, and numbers go on", async () => {
      await backend().commit([
        ...createCall({ session: "s", run: "r", wait: "w", call: "c" }),
        { kind: "devices.replace", sessionId: "s", devices: [aDevice("s", "phone")] },
        { kind: "offer.append", offer: { callId: "c", channel: "ring", via: "fcm", at: T0 } },
        { kind: "upload.create", upload: anUpload("u", "s") },
        appendMessage("s", "hello"),
        appendEvent("s", "one"),
        appendEvent("s", "two"),
      ]);
      const read = async (store: Backend) => ({
        session: await store.session("s"),
        devices: await store.devices("s"),
        run: await store.run("r"),
        wait: await store.wait("w"),
        call: await store.call("c"),
        offers: await store.offers("c"),
        upload: await store.upload("u"),
        messages: await store.messages("s"),
        events: await store.events("s"),
      });
      const before = await read(backend());
      const again = await reopen();
      expect(await read(again)).toEqual(before);
      expect(before.events).toHaveLength(2);
      const next = await again.commit([appendEvent("s", "three"), appendMessage("s", "more")]);
      expect(next).toMatchObject({ committed: true, events: [{ seq: 3 }] });
      expect((await again.messages("s")).at(-1)).toMatchObject({ position: 2 });
      expect(await again.commit([{ kind: "run.update", runId: "r", version: 2, patch: {} }])).toMatchObject({
        reason: "conflict",
      });
    });

    it("keeps what was committed just before it was closed", async () => {
      await backend().commit(createCall({ session: "s", run: "r", wait: "w", call: "c" }));
      const commits = Array.from({ length: 50 }, (_, index) => backend().commit([appendEvent("s", `${index}`)]));
      const again = await reopen();
      const results = await Promise.all(commits);
      expect(results.every((result) => result.committed)).toBe(true);
      expect(await again.lastEventSeq("s")).toBe(50);
    });
  });
}
