import type { Backend, CommitResult, Write } from "@leafmesh/core/storage";
import { describe, expect, it } from "vitest";
import {
  aCall,
  aDevice,
  anUpload,
  appendEvent,
  appendMessage,
  aWait,
  createCall,
  createRun,
  createSession,
  T0,
} from "./records.ts";

const NAMES = { session: "s", run: "r", wait: "w", call: "c" };

export function commitCases(backend: () => Backend): void {
  const commit = (...writes: Write[]): Promise<CommitResult> => backend().commit(writes);
  const refusal = (at: number, reason: "exists" | "missing" | "conflict") => ({ committed: false, at, reason });

  describe("a commit", () => {
    it("of nothing succeeds", async () => {
      expect(await commit()).toEqual({ committed: true, events: [] });
    });

    it("writes nothing at all when a write in its middle is refused", async () => {
      await commit(createSession("s"), createRun("r", "s"));
      const result = await commit(
        { kind: "run.update", runId: "r", version: 1, patch: { status: "running" } },
        appendEvent("s", "lost"),
        appendMessage("s", "lost"),
        { kind: "devices.replace", sessionId: "s", devices: [aDevice("s", "phone")] },
        createRun("r", "s"),
        { kind: "session.end", sessionId: "s", at: T0 },
      );
      expect(result).toEqual(refusal(4, "exists"));
      expect(await backend().run("r")).toMatchObject({ status: "queued", version: 1 });
      expect(await backend().events("s")).toEqual([]);
      expect(await backend().messages("s")).toEqual([]);
      expect(await backend().devices("s")).toEqual([]);
      expect(await backend().session("s")).not.toHaveProperty("endedAt", expect.any(Number));
      expect(await commit(appendEvent("s", "kept"))).toMatchObject({ committed: true, events: [{ seq: 1 }] });
    });

    it("sees its own earlier writes", async () => {
      const result = await commit(
        createSession("s"),
        createRun("r", "s"),
        { kind: "run.update", runId: "r", version: 1, patch: { status: "running" } },
        { kind: "run.update", runId: "r", version: 2, patch: { status: "succeeded", reply: "Yes." } },
      );
      expect(result.committed).toBe(true);
      expect(await backend().run("r")).toMatchObject({ status: "succeeded", reply: "Yes.", version: 3 });
    });

    it("of many at once keeps each whole, whatever becomes of the others", async () => {
      await commit(createSession("s"));
      const results = await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          commit(
            appendEvent("s", `event ${index}`),
            appendMessage("s", `message ${index}`),
            index % 4 === 0 ? createSession("s") : createSession(`other-${index}`),
          ),
        ),
      );
      expect(results.map((result) => result.committed)).toEqual(results.map((_, index) => index % 4 !== 0));
      const kept = results.flatMap((_, index) => (index % 4 === 0 ? [] : [index]));
      const events = await backend().events("s");
      const messages = await backend().messages("s");
      expect(events.map((event) => event.seq)).toEqual(kept.map((_, index) => index + 1));
      expect(messages.map((message) => message.position)).toEqual(kept.map((_, index) => index + 1));
      expect(new Set(messages.map(({ message }) => message.content))).toEqual(
        new Set(kept.map((index) => `message ${index}`)),
      );
    });
  });

  describe("preconditions", () => {
    it("refuse an id that is taken", async () => {
      await commit(...createCall(NAMES), { kind: "upload.create", upload: anUpload("u", "s") });
      const wait = aWait("w", { id: "r", sessionId: "s" }, ["c"]);
      expect(await commit(createSession("s"))).toEqual(refusal(0, "exists"));
      expect(await commit(createRun("r", "s"))).toEqual(refusal(0, "exists"));
      expect(await commit({ kind: "wait.create", wait })).toEqual(refusal(0, "exists"));
      expect(await commit({ kind: "call.create", call: aCall("c", wait) })).toEqual(refusal(0, "exists"));
      expect(await commit({ kind: "upload.create", upload: anUpload("u", "s") })).toEqual(refusal(0, "exists"));
    });

    it("refuse what refers to nothing", async () => {
      const nowhere = aWait("w", { id: "r", sessionId: "nowhere" }, ["c"]);
      const writes: Write[] = [
        { kind: "session.touch", sessionId: "nowhere", at: T0 },
        { kind: "session.end", sessionId: "nowhere", at: T0 },
        { kind: "devices.replace", sessionId: "nowhere", devices: [] },
        createRun("r", "nowhere"),
        { kind: "run.update", runId: "nowhere", version: 1, patch: {} },
        appendMessage("nowhere", "hello"),
        { kind: "wait.create", wait: nowhere },
        { kind: "wait.update", waitId: "nowhere", from: "open", to: "complete" },
        { kind: "call.create", call: aCall("c", nowhere) },
        { kind: "call.update", callId: "nowhere", version: 1, patch: {} },
        { kind: "offer.append", offer: { callId: "nowhere", channel: "ring", via: "fcm", at: T0 } },
        appendEvent("nowhere", "hello"),
        { kind: "upload.create", upload: anUpload("u", "nowhere") },
      ];
      for (const write of writes) expect(await commit(write), write.kind).toEqual(refusal(0, "missing"));
      await commit(createSession("s"));
      const orphan = aWait("w", { id: "no-run", sessionId: "s" }, ["c"]);
      expect(await commit({ kind: "wait.create", wait: orphan })).toEqual(refusal(0, "missing"));
      expect(await commit({ kind: "call.create", call: aCall("c", orphan) })).toEqual(refusal(0, "missing"));
    });

    it("refuse an update of a version that is not the newest", async () => {
      await commit(...createCall(NAMES));
      expect(
        await commit({ kind: "call.update", callId: "c", version: 1, patch: { state: "reaching" } }),
      ).toMatchObject({ committed: true });
      expect(await commit({ kind: "call.update", callId: "c", version: 1, patch: { state: "cancelled" } })).toEqual(
        refusal(0, "conflict"),
      );
      expect(await commit({ kind: "run.update", runId: "r", version: 2, patch: {} })).toEqual(refusal(0, "conflict"));
      expect(await backend().call("c")).toMatchObject({ state: "reaching", version: 2 });
      expect(await backend().run("r")).toMatchObject({ version: 1 });
    });

    it("refuse to move a wait that is not where the caller saw it", async () => {
      await commit(...createCall(NAMES));
      expect(await commit({ kind: "wait.update", waitId: "w", from: "open", to: "complete" })).toMatchObject({
        committed: true,
      });
      expect(await commit({ kind: "wait.update", waitId: "w", from: "open", to: "expired" })).toEqual(
        refusal(0, "conflict"),
      );
      expect(await backend().wait("w")).toMatchObject({ state: "complete" });
    });

    it("let exactly one of two concurrent updates win", async () => {
      await commit(...createCall(NAMES));
      for (let version = 1; version <= 20; version++) {
        const results = await Promise.all(
          ["answered", "expired", "lost"].map((outcome) =>
            commit(
              { kind: "call.update", callId: "c", version, patch: { resultDigest: outcome } },
              appendEvent("s", `${version} ${outcome}`),
            ),
          ),
        );
        expect(results.filter((result) => result.committed)).toHaveLength(1);
        expect(results.filter((result) => !result.committed)).toEqual([refusal(0, "conflict"), refusal(0, "conflict")]);
        const events = await backend().events("s");
        expect(events).toHaveLength(version);
        const { resultDigest } = (await backend().call("c")) ?? {};
        expect(events.at(-1)?.payload).toMatchObject({ message: `${version} ${resultDigest}` });
      }
    });
  });

  describe("a patch", () => {
    it("leaves what it does not name, and clears what it names as undefined", async () => {
      await commit(...createCall(NAMES));
      const room = { connection: "my_rooms", label: "room-1" };
      await commit({ kind: "call.update", callId: "c", version: 1, patch: { room, result: { success: true } } });
      await commit({ kind: "call.update", callId: "c", version: 2, patch: { device: undefined, reached: "maybe" } });
      const call = await backend().call("c");
      expect(call).toMatchObject({ room, result: { success: true }, reached: "maybe", state: "created", version: 3 });
      expect(call?.device).toBeUndefined();
    });

    it("keeps a result of null apart from no result", async () => {
      await commit(...createCall(NAMES));
      expect((await backend().call("c"))?.result).toBeUndefined();
      await commit({ kind: "call.update", callId: "c", version: 1, patch: { result: null } });
      expect((await backend().call("c"))?.result).toBeNull();
    });
  });

  describe("the end of a session", () => {
    const upload: Write = { kind: "upload.create", upload: anUpload("u", "s", { callId: "c" }) };
    const devices: Write = { kind: "devices.replace", sessionId: "s", devices: [aDevice("s", "phone")] };

    it("erases its devices and uploads, and nothing else", async () => {
      await commit(...createCall(NAMES), devices, upload, appendMessage("s", "hello"), appendEvent("s", "hello"));
      await commit(
        createSession("other"),
        { kind: "devices.replace", sessionId: "other", devices: [aDevice("other", "tablet")] },
        { kind: "upload.create", upload: anUpload("u2", "other") },
      );
      await commit({ kind: "session.end", sessionId: "s", at: T0 + 5 });
      expect(await backend().session("s")).toMatchObject({ endedAt: T0 + 5 });
      expect(await backend().devices("s")).toEqual([]);
      expect(await backend().upload("u")).toBeUndefined();
      expect(await backend().messages("s")).toHaveLength(1);
      expect(await backend().events("s")).toHaveLength(1);
      expect(await backend().call("c")).toBeDefined();
      expect(await backend().devices("other")).toHaveLength(1);
      expect(await backend().upload("u2")).toBeDefined();
    });

    it("happens once, and no new work or secret enters afterwards", async () => {
      await commit(...createCall(NAMES), { kind: "session.end", sessionId: "s", at: T0 });
      const wait = aWait("w2", { id: "r", sessionId: "s" }, ["c2"]);
      const writes: Write[] = [
        { kind: "session.end", sessionId: "s", at: T0 },
        devices,
        upload,
        createRun("r2", "s"),
        { kind: "wait.create", wait },
        { kind: "call.create", call: aCall("c2", wait) },
      ];
      for (const write of writes) expect(await commit(write), write.kind).toEqual(refusal(0, "conflict"));
    });

    it("lets what is under way be brought to its end", async () => {
      await commit(...createCall(NAMES), { kind: "session.end", sessionId: "s", at: T0 });
      const result = await commit(
        { kind: "call.update", callId: "c", version: 1, patch: { state: "cancelled" } },
        { kind: "wait.update", waitId: "w", from: "open", to: "cancelled" },
        { kind: "run.update", runId: "r", version: 1, patch: { status: "cancelled", finishedAt: T0 } },
        appendMessage("s", "closing"),
        appendEvent("s", "closed"),
        { kind: "session.touch", sessionId: "s", at: T0 + 9 },
      );
      expect(result).toMatchObject({ committed: true });
    });
  });
}
