import type { Backend, Write } from "@leafmesh/core/storage";
import { describe, expect, it } from "vitest";
import {
  aCall,
  aDevice,
  aMessage,
  anUpload,
  appendMessage,
  aRun,
  aSession,
  aWait,
  createCall,
  createRun,
  createSession,
  T0,
  toolMessage,
} from "./records.ts";

export function readCases(backend: () => Backend): void {
  const commit = async (...writes: Write[]): Promise<void> => {
    expect(await backend().commit(writes)).toMatchObject({ committed: true });
  };

  describe("records", () => {
    it("come back as they were written, with and without their optional parts", async () => {
      const bare = aSession("bare");
      const full = aSession("full", { owner: "app", endedAt: T0 + 1, context: { deep: { list: [1, null, "x"] } } });
      const run = aRun("r", "bare");
      const ended = aRun("r2", "bare", {
        status: "failed",
        reply: "no",
        error: { code: "model_unavailable", message: "The model did not answer." },
        startedAt: T0 + 1,
        finishedAt: T0 + 2,
        version: 7,
      });
      const wait = aWait("w", run, ["c", "c2"]);
      const call = aCall("c", wait);
      const settled = aCall("c2", wait, {
        state: "used",
        reached: "yes",
        device: undefined,
        room: { connection: null, label: "room-9" },
        result: { outcome: "done", data: [1, { a: null }] },
        outcome: "done",
        resultDigest: "abc",
        settledAt: T0 + 3,
        usedAt: T0 + 4,
        version: 5,
      });
      const upload = anUpload("u", "bare");
      await commit(
        { kind: "session.create", session: bare },
        { kind: "session.create", session: full },
        { kind: "run.create", run },
        { kind: "run.create", run: ended },
        { kind: "wait.create", wait },
        { kind: "call.create", call },
        { kind: "call.create", call: settled },
        { kind: "upload.create", upload },
      );
      expect(await backend().session("bare")).toEqual(bare);
      expect(await backend().session("full")).toEqual(full);
      expect(await backend().run("r")).toEqual(run);
      expect(await backend().run("r2")).toEqual(ended);
      expect(await backend().wait("w")).toEqual(wait);
      expect(await backend().call("c")).toEqual(call);
      expect(await backend().call("c2")).toEqual(settled);
      const stored = await backend().upload("u");
      expect(stored && { ...stored, sealedContent: [...stored.sealedContent] }).toEqual({
        ...upload,
        sealedContent: [...upload.sealedContent],
      });
      for (const read of ["session", "run", "wait", "call", "upload"] as const) {
        expect(await backend()[read]("nowhere"), read).toBeUndefined();
      }
    });

    it("hold any text and large values", async () => {
      const text = "Grüße 🪴 \u2028 日本語 \\ \" ' ; -- %s $x \n\t".repeat(20);
      const large = "0123456789".repeat(100_000);
      await commit(
        createSession("s", { context: { [text]: text, ["__proto__"]: { polluted: true } } }),
        createRun("r", "s", { input: text }),
        appendMessage("s", large),
        { kind: "message.append", message: { ...aMessage("s", "", "r"), message: toolMessage("call_0", text, ["u"]) } },
        {
          kind: "event.append",
          sessionId: "s",
          at: T0,
          event: { type: "warning", payload: { code: "x", message: large } },
        },
        { kind: "upload.create", upload: anUpload("u", "s", { sealedContent: new Uint8Array(3_000_000).fill(7) }) },
      );
      expect((await backend().session("s"))?.context[text]).toBe(text);
      expect((await backend().run("r"))?.input).toBe(text);
      expect((await backend().messages("s")).map(({ message }) => message)).toEqual([
        { role: "user", content: large },
        toolMessage("call_0", text, ["u"]),
      ]);
      expect((await backend().events("s"))[0]?.payload).toEqual({ code: "x", message: large });
      const { sealedContent } = (await backend().upload("u")) ?? {};
      expect(sealedContent?.length).toBe(3_000_000);
      expect(sealedContent?.every((byte) => byte === 7)).toBe(true);
      expect({}).not.toHaveProperty("polluted");
    });
  });

  describe("sessions", () => {
    it("are listed newest first, in pages, by owner, with their state", async () => {
      for (let index = 0; index < 6; index++) {
        await commit(createSession(`s${index}`, { createdAt: T0 + index, ...(index % 2 ? { owner: "app" } : {}) }));
      }
      await commit(createRun("r", "s1"), { kind: "session.end", sessionId: "s3", at: T0 });
      await commit(createRun("r5", "s5", { status: "succeeded" }));
      const list = async (query: Parameters<Backend["sessions"]>[0]) =>
        (await backend().sessions(query)).map(({ session, state }) => `${session.id} ${state}`);
      expect(await list({ limit: 10 })).toEqual(["s5 idle", "s4 idle", "s3 ended", "s2 idle", "s1 running", "s0 idle"]);
      expect(await list({ limit: 2, owner: "app" })).toEqual(["s5 idle", "s3 ended"]);
      expect(await list({ limit: 2, owner: "app", before: T0 + 3 })).toEqual(["s1 running"]);
      expect(await list({ limit: 2, before: T0 + 2 })).toEqual(["s1 running", "s0 idle"]);
      expect(await list({ limit: 2, owner: "nobody" })).toEqual([]);
    });

    it("that have not ended are counted by owner", async () => {
      await commit(createSession("a1", { owner: "a" }), createSession("a2", { owner: "a" }), createSession("n1"));
      expect(await backend().countOpenSessions("a")).toBe(2);
      expect(await backend().countOpenSessions(undefined)).toBe(1);
      await commit({ kind: "session.end", sessionId: "a1", at: T0 });
      expect(await backend().countOpenSessions("a")).toBe(1);
      expect(await backend().countOpenSessions("b")).toBe(0);
    });

    it("that are idle have no open run and no activity since", async () => {
      await commit(
        createSession("old", { lastActiveAt: T0 - 30 }),
        createSession("older", { lastActiveAt: T0 - 40 }),
        createSession("busy", { lastActiveAt: T0 - 50 }),
        createSession("ended", { lastActiveAt: T0 - 60 }),
        createSession("active", { lastActiveAt: T0 }),
        createRun("r", "busy", { status: "suspended" }),
        createRun("r2", "old", { status: "cancelled" }),
        { kind: "session.end", sessionId: "ended", at: T0 },
      );
      const idle = async (before: number, limit = 10) =>
        (await backend().idleSessions(before, limit)).map((session) => session.id);
      expect(await idle(T0)).toEqual(["older", "old"]);
      expect(await idle(T0 - 30)).toEqual(["older"]);
      expect(await idle(T0, 1)).toEqual(["older"]);
      await commit({ kind: "session.touch", sessionId: "older", at: T0 + 1 });
      expect(await idle(T0)).toEqual(["old"]);
    });

    it("are touched forwards only, and keep their context unless a new one is given", async () => {
      await commit(createSession("s", { context: { a: 1 } }));
      await commit(
        { kind: "session.touch", sessionId: "s", at: T0 + 10 },
        { kind: "session.touch", sessionId: "s", at: T0 + 5 },
      );
      expect(await backend().session("s")).toMatchObject({ lastActiveAt: T0 + 10, context: { a: 1 } });
      await commit({ kind: "session.touch", sessionId: "s", at: T0 + 11, context: { b: 2 } });
      expect((await backend().session("s"))?.context).toEqual({ b: 2 });
    });
  });

  describe("devices", () => {
    it("are replaced as a whole and keep their order", async () => {
      await commit(createSession("s"));
      const capabilities = [{ name: "read_battery", effect: "read" as const, inputs: { type: "object" } }];
      const first = [aDevice("s", "zeta"), aDevice("s", "alpha", { name: "Phone", platform: "ios", capabilities })];
      await commit({ kind: "devices.replace", sessionId: "s", devices: first });
      expect(await backend().devices("s")).toEqual(first);
      const second = [aDevice("s", "alpha"), aDevice("s", "beta")];
      await commit({ kind: "devices.replace", sessionId: "s", devices: second });
      expect(await backend().devices("s")).toEqual(second);
      await commit({ kind: "devices.replace", sessionId: "s", devices: [] });
      expect(await backend().devices("s")).toEqual([]);
    });

    it("with one id twice in a list are refused", async () => {
      await commit(createSession("s"));
      const devices = [aDevice("s", "same"), aDevice("s", "same")];
      expect(await backend().commit([{ kind: "devices.replace", sessionId: "s", devices }])).toEqual({
        committed: false,
        at: 0,
        reason: "exists",
      });
    });
  });

  describe("messages", () => {
    it("have gap-free positions, oldest first, and can be cut to the last ones or to one run's", async () => {
      await commit(createSession("s"), createSession("t"));
      for (let index = 1; index <= 9; index++) {
        await commit(appendMessage("s", `${index}`, index % 3 ? "r1" : "r2"), appendMessage("t", "elsewhere"));
      }
      const positions = async (query?: Parameters<Backend["messages"]>[1]) =>
        (await backend().messages("s", query)).map(({ position, message }) => `${position}:${message.content}`);
      expect(await positions()).toEqual(["1:1", "2:2", "3:3", "4:4", "5:5", "6:6", "7:7", "8:8", "9:9"]);
      expect(await positions({ limit: 2 })).toEqual(["8:8", "9:9"]);
      expect(await positions({ runId: "r2" })).toEqual(["3:3", "6:6", "9:9"]);
      expect(await positions({ runId: "r1", limit: 2 })).toEqual(["7:7", "8:8"]);
      expect(await backend().messages("nowhere")).toEqual([]);
    });
  });

  describe("runs and calls", () => {
    it("are found by session, run and state, oldest first", async () => {
      await commit(createSession("s"), createSession("t"));
      await commit(
        createRun("r3", "s", { createdAt: T0 + 3, status: "running" }),
        createRun("r1", "s", { createdAt: T0 + 1, status: "succeeded" }),
        createRun("r2", "t", { createdAt: T0 + 2, status: "queued" }),
        createRun("r0", "s", { createdAt: T0 + 3, status: "queued" }),
      );
      const runs = async (query: Parameters<Backend["runs"]>[0]) => (await backend().runs(query)).map((run) => run.id);
      expect(await runs({})).toEqual(["r1", "r2", "r3", "r0"]);
      expect(await runs({ sessionId: "s" })).toEqual(["r1", "r3", "r0"]);
      expect(await runs({ statuses: ["queued", "running"] })).toEqual(["r2", "r3", "r0"]);
      expect(await runs({ sessionId: "s", statuses: ["queued"] })).toEqual(["r0"]);
      expect(await runs({ statuses: [] })).toEqual([]);
      expect(await runs({ limit: 2 })).toEqual(["r1", "r2"]);

      const wait = aWait("w", { id: "r3", sessionId: "s" }, []);
      const other = aWait("w2", { id: "r2", sessionId: "t" }, []);
      await commit({ kind: "wait.create", wait }, { kind: "wait.create", wait: other });
      await commit(
        { kind: "call.create", call: aCall("c2", wait, { createdAt: T0 + 2, state: "answered" }) },
        { kind: "call.create", call: aCall("c1", wait, { createdAt: T0 + 1 }) },
        { kind: "call.create", call: aCall("c3", other, { createdAt: T0 + 3, state: "offered" }) },
        { kind: "call.create", call: aCall("c0", wait, { createdAt: T0 + 2, state: "offered" }) },
      );
      const calls = async (query: Parameters<Backend["calls"]>[0]) =>
        (await backend().calls(query)).map((call) => call.id);
      expect(await calls({})).toEqual(["c1", "c2", "c0", "c3"]);
      expect(await calls({ sessionId: "s" })).toEqual(["c1", "c2", "c0"]);
      expect(await calls({ runId: "r2" })).toEqual(["c3"]);
      expect(await calls({ states: ["offered", "created"] })).toEqual(["c1", "c0", "c3"]);
      expect(await calls({ sessionId: "s", states: ["offered"], runId: "r3" })).toEqual(["c0"]);
      expect(await calls({ states: [] })).toEqual([]);
      expect(await calls({ limit: 2 })).toEqual(["c1", "c2"]);
      expect(await calls({ newestFirst: true, limit: 3 })).toEqual(["c3", "c0", "c2"]);
      expect(await calls({ newestFirst: true, sessionId: "s", states: ["offered", "created"] })).toEqual(["c0", "c1"]);
    });

    it("keep every attempt to reach a device, in order", async () => {
      await commit(...createCall({ session: "s", run: "r", wait: "w", call: "c" }));
      const offers = [
        { callId: "c", channel: "ring", via: "fcm", at: T0 + 2, error: "quota" },
        { callId: "c", channel: "ring", via: "mqtt", at: T0 + 1, receipt: "m-1" },
        { callId: "c", channel: "task", via: "leafmesh", at: T0 + 1 },
      ] as const;
      for (const offer of offers) await commit({ kind: "offer.append", offer });
      expect(await backend().offers("c")).toEqual(offers);
      expect(await backend().offers("nowhere")).toEqual([]);
    });
  });
}
