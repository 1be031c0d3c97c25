import type { Backend, CallbackRecord, RunRecord, StoredFrame, ToolRecord, Write } from "@leafmesh/core/storage";
import { describe, expect, it } from "vitest";
import { aCall, aRun, aSession, aWait, createCall, createRun, createSession, T0 } from "./records.ts";

const NAMES = { session: "s", run: "r", wait: "w", call: "c" };

const appendFrame = (runId: string, type: string, data: Record<string, unknown> = {}): Write => ({
  kind: "frame.append",
  runId,
  at: T0,
  frame: { type, data },
});

const createCallback = (id: string, changes: Partial<CallbackRecord> = {}): Write => ({
  kind: "callback.create",
  callback: {
    id,
    runId: "r",
    sealedUrl: "sealed",
    state: "waiting",
    attempts: 0,
    dueAt: T0,
    createdAt: T0,
    version: 1,
    ...changes,
  },
});

const aTool = (slug: string, changes: Partial<ToolRecord> = {}): ToolRecord => ({
  slug,
  kind: "http",
  clientOwned: true,
  effect: "read",
  description: "Highlight an element of the page.",
  inputSchema: { type: "object", properties: { selector: { type: "string" } } },
  config: { schema_version: 1 },
  createdAt: T0,
  ...changes,
});

/** What calls that a client executes, and runs of the API, need of a store. */
export function outsideCallCases(backend: () => Backend): void {
  const commit = async (...writes: Write[]): Promise<void> => {
    expect(await backend().commit(writes)).toMatchObject({ committed: true });
  };
  const refused = (reason: string) => ({ committed: false, at: 0, reason });

  describe("a session key", () => {
    it("finds the owner's session that has not ended, and is its own for each owner", async () => {
      await commit(
        createSession("none", { key: "visitor-42" }),
        createSession("app", { key: "visitor-42", owner: "app" }),
        createSession("other", { key: "visitor-43", owner: "app" }),
        createSession("keyless", { owner: "app" }),
        createSession("keyless-too", { owner: "app" }),
      );
      expect(await backend().sessionByKey(undefined, "visitor-42")).toEqual(aSession("none", { key: "visitor-42" }));
      expect(await backend().sessionByKey("app", "visitor-42")).toMatchObject({ id: "app" });
      expect(await backend().sessionByKey("app", "visitor-44")).toBeUndefined();
      expect(await backend().sessionByKey("nobody", "visitor-42")).toBeUndefined();
    });

    it("is held by one session at a time, and free again when that has ended", async () => {
      await commit(createSession("first", { key: "k" }));
      expect(await backend().commit([createSession("second", { key: "k" })])).toEqual(refused("exists"));
      await commit({ kind: "session.end", sessionId: "first", at: T0 });
      expect(await backend().sessionByKey(undefined, "k")).toBeUndefined();
      await commit(createSession("second", { key: "k" }));
      expect(await backend().sessionByKey(undefined, "k")).toMatchObject({ id: "second" });
    });
  });

  describe("a run of the API", () => {
    it("keeps its options and frozen tools, and gets an output and a failure", async () => {
      const run: RunRecord = aRun("r", "s", {
        options: {
          clientTools: "suspend",
          clientToolTimeoutMs: 60_000,
          sealedCallbackUrl: "sealed",
          replayOf: "earlier",
        },
        deviceTools: [
          { tool_id: "device_x", description: "X", parameters: { type: "object", $defs: { a: [1, null] } } },
        ],
      });
      await commit(createSession("s"), { kind: "run.create", run });
      expect(await backend().run("r")).toEqual(run);
      const patch = {
        output: { result: { client_tool_calls: [] } },
        failure: { class: "timeout", detail: "client_tool_deadline" },
      };
      await commit({ kind: "run.update", runId: "r", version: 1, patch });
      expect(await backend().run("r")).toEqual({ ...run, ...patch, version: 2 });
    });
  });

  describe("an outside call", () => {
    it("keeps its token, digests, answerer and late result, and loses the sealed token when told to", async () => {
      const wait = aWait("w", { id: "r", sessionId: "s" }, ["c"]);
      const call = aCall("c", wait, {
        face: "bridge",
        tokenHash: "hash",
        sealedToken: "sealed",
        argumentsDigest: "arguments",
      });
      const late = { at: T0 + 9, digest: "late", result: { status: "ok", result: null } };
      await commit(createSession("s"), createRun("r", "s"), { kind: "wait.create", wait: { ...wait, face: "bridge" } });
      await commit({ kind: "call.create", call });
      expect(await backend().call("c")).toEqual(call);
      await commit({
        kind: "call.update",
        callId: "c",
        version: 1,
        patch: { sealedToken: undefined, answeredBy: "app", late },
      });
      expect(await backend().call("c")).toEqual({
        ...call,
        sealedToken: undefined,
        answeredBy: "app",
        late,
        version: 2,
      });
    });

    it("loses its tokens when its session ends", async () => {
      await commit(createSession("other"), createRun("r2", "other"), ...createCall(NAMES));
      const wait = aWait("w2", { id: "r2", sessionId: "other" }, ["c2"]);
      const mine = aWait("w3", { id: "r", sessionId: "s" }, ["c3"]);
      const tokens = { tokenHash: "hash", sealedToken: "sealed" };
      await commit(
        { kind: "wait.create", wait },
        { kind: "call.create", call: aCall("c2", wait, tokens) },
        { kind: "wait.create", wait: mine },
        { kind: "call.create", call: aCall("c3", mine, tokens) },
        { kind: "session.end", sessionId: "s", at: T0 },
      );
      expect(await backend().call("c3")).toEqual(aCall("c3", mine));
      expect(await backend().call("c2")).toMatchObject(tokens);
    });

    it("is found by wait and by face", async () => {
      await commit(createSession("s"), createRun("r", "s"));
      const first = aWait("w1", { id: "r", sessionId: "s" }, ["a", "b"]);
      const second = aWait("w2", { id: "r", sessionId: "s" }, ["c"]);
      await commit(
        { kind: "wait.create", wait: { ...first, face: "client" } },
        { kind: "wait.create", wait: { ...second, face: "bridge" } },
        { kind: "call.create", call: aCall("a", first, { face: "client", position: 0 }) },
        { kind: "call.create", call: aCall("b", first, { face: "client", position: 1, createdAt: T0 + 1 }) },
        { kind: "call.create", call: aCall("c", second, { face: "bridge", createdAt: T0 + 2 }) },
      );
      const ids = async (query: Parameters<Backend["calls"]>[0]) =>
        (await backend().calls(query)).map((call) => call.id);
      expect(await ids({ waitId: "w1" })).toEqual(["a", "b"]);
      expect(await ids({ runId: "r", faces: ["bridge"] })).toEqual(["c"]);
      expect(await ids({ runId: "r", faces: ["bridge", "client"], states: ["created"] })).toEqual(["a", "b", "c"]);
      expect(await ids({ faces: ["device"], states: ["created"] })).toEqual([]);
    });
  });

  describe("a wait", () => {
    it("is found by run, state and face, and remembers the answer that completed it", async () => {
      await commit(createSession("s"), createRun("r", "s"), createRun("r2", "s"));
      const wait = (id: string, runId: string, face: "bridge" | "client") =>
        ({ kind: "wait.create", wait: { ...aWait(id, { id: runId, sessionId: "s" }, []), face } }) as const;
      await commit(
        wait("b", "r", "client"),
        wait("a", "r", "client"),
        wait("c", "r", "bridge"),
        wait("d", "r2", "client"),
      );
      await commit({ kind: "wait.update", waitId: "b", from: "open", to: "complete", answerDigest: "digest" });
      await commit({ kind: "wait.update", waitId: "b", from: "complete", to: "continued" });
      expect(await backend().wait("b")).toMatchObject({ state: "continued", answerDigest: "digest" });
      const ids = async (query: Parameters<Backend["waits"]>[0]) =>
        (await backend().waits(query)).map((found) => found.id);
      expect(await ids({ runId: "r" })).toEqual(["b", "a", "c"]);
      expect(await ids({ states: ["open"], faces: ["client"] })).toEqual(["a", "d"]);
      expect(await ids({ runId: "r", states: ["continued"] })).toEqual(["b"]);
      expect(await ids({ states: ["open"], limit: 1 })).toEqual(["a"]);
      expect(await ids({ states: [] })).toEqual([]);
    });
  });

  describe("frames", () => {
    it("are numbered from 1 without a gap in each run, also when many are committed at once", async () => {
      await commit(createSession("s"), createRun("a", "s"), createRun("b", "s"));
      await Promise.all(
        Array.from({ length: 30 }, (_, index) =>
          backend().commit([appendFrame(index % 2 ? "a" : "b", "segment", { index }), appendFrame("a", "again")]),
        ),
      );
      for (const [runId, count] of [["a", 45] as const, ["b", 15] as const]) {
        const frames = await backend().frames(runId);
        expect(frames.map((frame) => frame.seq)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
      }
      expect(await backend().commit([appendFrame("nowhere", "x")])).toEqual(refused("missing"));
    });

    it("are read in pages and by type", async () => {
      await commit(createSession("s"), createRun("r", "s"));
      await commit(appendFrame("r", "a", { n: null }), appendFrame("r", "suspend"), appendFrame("r", "a"));
      expect(await backend().frames("r", { limit: 1 })).toEqual([
        { runId: "r", seq: 1, at: T0, type: "a", data: { n: null } },
      ]);
      expect((await backend().frames("r", { after: 1 })).map((frame) => frame.seq)).toEqual([2, 3]);
      expect((await backend().frames("r", { types: ["suspend"] })).map((frame) => frame.seq)).toEqual([2]);
      expect(await backend().frames("r", { types: [] })).toEqual([]);
    });

    it("reach the listeners of their run, after they are stored and in order", async () => {
      await commit(createSession("s"), createRun("r", "s"), createRun("other", "s"));
      const heard: StoredFrame[] = [];
      const { promise, resolve } = Promise.withResolvers<void>();
      const stop = backend().subscribeRun("r", {
        onFrames(frames) {
          heard.push(...frames);
          if (heard.length >= 10) resolve();
        },
      });
      await backend().commit([appendFrame("r", "never"), createSession("s")]);
      for (let index = 0; index < 5; index++) {
        await commit(appendFrame("other", "x"), appendFrame("r", "one", { index }), appendFrame("r", "two"));
      }
      await promise;
      stop();
      await commit(appendFrame("r", "unheard"));
      expect(heard).toEqual((await backend().frames("r")).slice(0, 10));
    });
  });

  describe("tools", () => {
    it("are kept by slug, and can be deleted", async () => {
      const highlight = aTool("highlight", { owner: "app" });
      const scroll = aTool("scroll", { effect: "write", clientOwned: false });
      await commit({ kind: "tool.create", tool: scroll }, { kind: "tool.create", tool: highlight });
      expect(await backend().tools()).toEqual([highlight, scroll]);
      expect(await backend().tool("scroll")).toEqual(scroll);
      expect(await backend().tool("nowhere")).toBeUndefined();
      expect(await backend().commit([{ kind: "tool.create", tool: aTool("scroll") }])).toEqual(refused("exists"));
      await commit({ kind: "tool.delete", slug: "scroll" });
      expect(await backend().tools()).toEqual([highlight]);
      expect(await backend().commit([{ kind: "tool.delete", slug: "scroll" }])).toEqual(refused("missing"));
    });
  });

  describe("callbacks", () => {
    it("are about the newest frame of their run", async () => {
      await commit(createSession("s"), createRun("r", "s"));
      expect(await backend().commit([createCallback("early")])).toEqual(refused("missing"));
      await commit(
        appendFrame("r", "suspend"),
        createCallback("one"),
        appendFrame("r", "resume"),
        createCallback("two"),
      );
      const due = await backend().dueCallbacks(T0, 10);
      expect(due.map(({ id, frameSeq }) => [id, frameSeq])).toEqual([
        ["one", 1],
        ["two", 2],
      ]);
      expect(await backend().commit([createCallback("one")])).toEqual(refused("exists"));
    });

    it("are about an event of their run, and go to the mesh's own address", async () => {
      const event = { type: "device.token_dead", payload: { device: "phone-7", notifier: "phones" } } as const;
      expect(await backend().commit([createCallback("early", { event })])).toEqual(refused("missing"));
      await commit(createSession("s"), createRun("r", "s"), createCallback("one", { event, sealedUrl: undefined }));
      expect(await backend().dueCallbacks(T0, 10)).toMatchObject([{ id: "one", runId: "r", frameSeq: 0, event }]);
      expect((await backend().dueCallbacks(T0, 10))[0]?.sealedUrl).toBeUndefined();
      expect(await backend().commit([createCallback("one", { event })])).toEqual(refused("exists"));
    });

    it("that are due come longest due first, until they are delivered or given up", async () => {
      await commit(createSession("s"), createRun("r", "s"), appendFrame("r", "suspend"));
      await commit(createCallback("b", { dueAt: T0 + 2 }), createCallback("a", { dueAt: T0 + 1 }));
      await commit(createCallback("later", { dueAt: T0 + 9 }));
      const due = async (now: number, limit = 10) =>
        (await backend().dueCallbacks(now, limit)).map((callback) => callback.id);
      expect(await due(T0)).toEqual([]);
      expect(await due(T0 + 2)).toEqual(["a", "b"]);
      expect(await due(T0 + 9, 2)).toEqual(["a", "b"]);
      const update = (callbackId: string, version: number, patch: Partial<CallbackRecord>) =>
        backend().commit([{ kind: "callback.update", callbackId, version, patch }]);
      await update("a", 1, { attempts: 1, dueAt: T0 + 5, lastError: "503" });
      expect(await update("a", 1, { attempts: 9 })).toEqual(refused("conflict"));
      expect(await update("nowhere", 1, {})).toEqual(refused("missing"));
      expect(await due(T0 + 5)).toEqual(["b", "a"]);
      expect((await backend().dueCallbacks(T0 + 5, 10))[1]).toMatchObject({
        attempts: 1,
        lastError: "503",
        version: 2,
      });
      await update("a", 2, { state: "given_up", finishedAt: T0 + 6 });
      await update("b", 1, { state: "delivered", finishedAt: T0 + 6 });
      expect(await due(T0 + 9)).toEqual(["later"]);
    });
  });

  describe("idempotency keys", () => {
    it("are unique among their owner's, and forgotten when they are old", async () => {
      const record = { key: "k", requestDigest: "d", runId: "r", createdAt: T0 };
      const create = (more: object = {}): Write => ({
        kind: "idempotency.create",
        idempotency: { ...record, ...more },
      });
      await commit(create(), create({ owner: "app", runId: "r2", createdAt: T0 + 1 }));
      expect(await backend().idempotency(undefined, "k")).toEqual(record);
      expect(await backend().idempotency("app", "k")).toEqual({
        ...record,
        owner: "app",
        runId: "r2",
        createdAt: T0 + 1,
      });
      expect(await backend().idempotency("other", "k")).toBeUndefined();
      expect(await backend().commit([create({ requestDigest: "other" })])).toEqual(refused("exists"));
      await commit({ kind: "idempotency.forget", before: T0 + 1 });
      expect(await backend().idempotency(undefined, "k")).toBeUndefined();
      expect(await backend().idempotency("app", "k")).toBeDefined();
    });
  });
}
