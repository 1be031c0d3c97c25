/** The rules by which an executor answers the calls of a conversation's declared tools. */
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { deviceCall, newExecutor, STREAM, settled, state } from "../../testing/bridge.ts";
import { MeshDouble } from "../../testing/mesh-double.ts";
import { type CallLedger, createMemoryCallLedger } from "./entries.ts";
import { type ClientTool, image, ToolError } from "./tool.ts";

const RESULT = "/api/sessions/s/device_tools/a/result";

let mesh: MeshDouble;
beforeEach(async () => {
  mesh = await new MeshDouble().start();
  mesh.greet = () => [state()];
});
afterEach(() => mesh.close());

const tool = (run: ClientTool["run"]) => ({ device_act: { description: "Acts.", parameters: {}, run } });
const posts = () => mesh.posted.filter(({ path }) => path.endsWith("/result"));

describe("a call", () => {
  it("is run, and its result posted with the call's token", async () => {
    const { executor, session, types, ran } = newExecutor(mesh);
    await executor.attach(session);
    expect(mesh.connections).toEqual([{ path: STREAM, after: 0, executor: true }]);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    expect(mesh.posted).toEqual([
      { path: RESULT, body: { call_token: "token-of-a", status: "ok", result: { acted: 1 } } },
    ]);
    await executor.idle();
    expect(ran).toEqual([{ to: "mom" }]);
    expect(types()).toEqual(["started", "answered", "delivered"]);
    await executor.close();
  });

  it("is in the ledger before it is run, and its result before it is posted", async () => {
    const ledger = createMemoryCallLedger();
    const seen: unknown[] = [];
    mesh.answer = () => ({ status: 200, body: { resolved: true } });
    const { executor, session } = newExecutor(mesh, {
      ledger,
      tools: tool(async () => {
        seen.push(await ledger.get("s/a"));
        return 7;
      }),
      onEvent: (event) => {
        if (event.type === "delivered") void ledger.get("s/a").then((entry) => seen.push(entry));
      },
    });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    await executor.idle();
    expect(seen).toMatchObject([{ state: "started" }, { state: "answered", answer: { status: "ok", result: 7 } }]);
    expect(await ledger.get("s/a")).toEqual({ id: "s/a", at: expect.any(Number), state: "closed" });
    await executor.close();
  });

  it("that is delivered again while it runs is run once", async () => {
    const started = Promise.withResolvers<void>();
    const release = Promise.withResolvers<string>();
    const { executor, session, ran } = newExecutor(mesh, {
      tools: tool(() => {
        ran.push(1);
        started.resolve();
        return release.promise;
      }),
    });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await started.promise;
    mesh.cut(STREAM);
    await mesh.until(() => mesh.connections.length === 2);
    expect(mesh.connections[1]).toMatchObject({ after: 0 });
    release.resolve("once");
    await mesh.until(() => posts().length === 1);
    await executor.idle();
    expect(ran).toHaveLength(1);
    expect(posts()).toHaveLength(1);
    await executor.close();
  });

  it("outlives the stream, and listening", async () => {
    const started = Promise.withResolvers<void>();
    const release = Promise.withResolvers<string>();
    const { executor, session } = newExecutor(mesh, {
      tools: tool(() => {
        started.resolve();
        return release.promise;
      }),
    });
    const attachment = await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await started.promise;
    await attachment.stop();
    expect(await attachment.ended).toEqual({ reason: "stopped" });
    release.resolve("sent");
    await executor.idle();
    expect(posts()).toMatchObject([{ body: { status: "ok", result: "sent" } }]);
    await executor.close();
  });

  it.each([
    ["an unexpected error", new Error("no signal"), { code: "handler_error", message: "no signal" }],
    [
      "an error with its code",
      new ToolError("no_permission", "SMS is off"),
      { code: "no_permission", message: "SMS is off" },
    ],
    ["nothing to say", new Error(""), { code: "handler_error", message: "no reason given" }],
  ])("that throws %s is a failed step", async (_what, thrown, error) => {
    const { executor, session } = newExecutor(mesh, {
      tools: tool(() => {
        throw thrown;
      }),
    });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toEqual({ call_token: "token-of-a", status: "error", error });
    await executor.close();
  });

  it.each([
    ["no value", undefined, { status: "ok", result: null }],
    ["what JSON cannot say", () => {}, { status: "error", error: { code: "bad_result" } }],
    ["more than is taken", "x".repeat(1024 * 1024), { status: "error", error: { code: "result_too_large" } }],
    [
      "an image",
      image(new Uint8Array([1, 2, 3]), "image/png", { width: 3 }),
      { status: "ok", result: { width: 3, image_base64: "AQID", image_media_type: "image/png" } },
    ],
  ])("that returns %s", async (_what, value, body) => {
    const { executor, session } = newExecutor(mesh, { tools: tool(() => value) });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject(body);
    await executor.close();
  });

  it("of a tool that is not there is refused by name", async () => {
    const { executor, session } = newExecutor(mesh);
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a", { tool_id: "device_other" }));
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject({ status: "error", error: { code: "unknown_tool" } });
    await executor.close();
  });

  it("is told to stop when it ends elsewhere", async () => {
    const stopped = Promise.withResolvers<unknown>();
    const { executor, session } = newExecutor(mesh, {
      tools: tool(
        (_args, { signal }) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener("abort", () => {
              stopped.resolve(signal.reason);
              reject(new ToolError("stopped", "Stopped half way"));
            });
          }),
      ),
    });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    mesh.append(STREAM, 2, settled("a", "cancelled"));
    expect(await stopped.promise).toMatchObject({ name: "CallStopped", stopCause: "settled" });
    await executor.idle();
    expect(posts()).toMatchObject([{ body: { error: { code: "stopped" } } }]);
    await executor.close();
  });

  it("whose tool does not end is given up on after its time, and stays begun", async () => {
    const clock = createFakeClock(Date.now());
    const ledger = createMemoryCallLedger();
    const { executor, session, types } = newExecutor(mesh, { clock, ledger, tools: tool(() => new Promise(() => {})) });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    while (!types().includes("started")) await new Promise((turn) => setImmediate(turn));
    await clock.advance(33_000);
    await executor.idle();
    expect(types()).toEqual(["started", "abandoned"]);
    expect(await ledger.get("s/a")).toMatchObject({ state: "started" });
    expect(posts()).toEqual([]);
    await executor.close();
  });
});

describe("permission", () => {
  it.each([
    ["no", false, "The call is not allowed on this client"],
    ["no, with a reason", "SMS is switched off", "SMS is switched off"],
  ])("is asked for when the call comes: %s", async (_what, answer, message) => {
    const { executor, session, ran } = newExecutor(mesh, { allow: async () => answer });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject({ status: "error", error: { code: "permission_denied", message } });
    expect(ran).toEqual([]);
    await executor.close();
  });

  it("that comes after the time is over runs nothing", async () => {
    const clock = createFakeClock(Date.now());
    const asked = Promise.withResolvers<void>();
    const { executor, session, ran } = newExecutor(mesh, {
      clock,
      allow: () => {
        asked.resolve();
        return new Promise(() => {});
      },
    });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await asked.promise;
    await clock.advance(31_000);
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject({ status: "error", error: { code: "not_run" } });
    expect(ran).toEqual([]);
    await executor.close();
  });
});

describe("delivered again after a restart", () => {
  const restartedWith = async (state: "started" | "answered" | "closed") => {
    const ledger = createMemoryCallLedger();
    const answer = { status: "ok", result: "from before" } as const;
    await ledger.put({ id: "s/a", at: 1, state, ...(state === "answered" ? { answer } : {}) });
    mesh.append(STREAM, 1, deviceCall("a"));
    const started = newExecutor(mesh, { ledger });
    await started.executor.attach(started.session);
    return { ...started, ledger };
  };

  it("a call with a result is not run again: the result is posted again", async () => {
    const { executor, ran } = await restartedWith("answered");
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject({ status: "ok", result: "from before" });
    await executor.idle();
    expect(ran).toEqual([]);
    await executor.close();
  });

  it("a call that was begun is not run again: its outcome is unknown", async () => {
    const { executor, ran, ledger } = await restartedWith("started");
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject({ status: "error", error: { code: "outcome_unknown" } });
    await executor.idle();
    expect(ran).toEqual([]);
    expect(await ledger.get("s/a")).toMatchObject({ state: "closed" });
    await executor.close();
  });

  it("a call that is closed is left alone", async () => {
    const { executor, ran, types } = await restartedWith("closed");
    await executor.idle();
    expect(types()).toEqual(["repeated"]);
    expect([ran, posts()]).toEqual([[], []]);
    await executor.close();
  });

  it("the attachment's cursor leads back to the open call", async () => {
    mesh.append(STREAM, 1, { type: "warning", payload: { code: "c", message: "m" }, ts: 1 });
    const { executor, session } = newExecutor(mesh, { tools: tool(() => new Promise(() => {})) });
    const attachment = await executor.attach(session);
    mesh.append(STREAM, 2, deviceCall("a"));
    mesh.append(STREAM, 3, { type: "warning", payload: { code: "c", message: "m" }, ts: 1 });
    const { promise, resolve } = Promise.withResolvers<void>();
    const again = newExecutor(mesh);
    const second = await again.executor.attach(again.session, {
      after: 1,
      onEvent: (event) => {
        if (event.seq === 3) resolve();
      },
    });
    await promise;
    await Promise.all([attachment.stop(), second.stop()]);
    expect(attachment.cursor).toBe(1);
    await again.executor.close();
    void executor.close();
  });
});

describe("the backlog", () => {
  it("holds calls back until all of it is there, and runs only those that are open", async () => {
    mesh.append(STREAM, 1, deviceCall("old"));
    mesh.append(STREAM, 2, settled("old", "expired"));
    mesh.append(STREAM, 3, deviceCall("a"));
    const { executor, session, ran } = newExecutor(mesh);
    await executor.attach(session);
    await mesh.until(() => posts().length === 1);
    await executor.idle();
    expect(posts()[0]?.path).toBe(RESULT);
    expect(ran).toHaveLength(1);
    await executor.close();
  });

  it("shows calls without their token to whoever may not answer them", async () => {
    mesh.append(STREAM, 1, deviceCall("a", { call_token: undefined }));
    const { executor, session, ran, types } = newExecutor(mesh);
    await executor.attach(session);
    await executor.idle();
    expect(types()).toEqual(["no_token"]);
    expect([ran, posts()]).toEqual([[], []]);
    await executor.close();
  });
});

describe("a stale call", () => {
  const HOUR = 3_600_000;

  it("is judged by the mesh's clock, drops with a report and is not run", async () => {
    mesh.greet = () => [state(Date.now() + HOUR)];
    mesh.append(STREAM, 1, deviceCall("a", { expires_at: (Date.now() + HOUR - 61_000) / 1000 }));
    const { executor, session, ran, events } = newExecutor(mesh);
    await executor.attach(session);
    await executor.idle();
    const stale = events.find(({ type }) => type === "stale");
    expect(stale).toMatchObject({ call: { key: "s/a" } });
    expect(stale?.type === "stale" && stale.lateByMs).toBeGreaterThan(60_000);
    expect([ran, posts()]).toEqual([[], []]);
    await executor.close();
  });

  it("is one only after a minute of grace", async () => {
    mesh.greet = () => [state(Date.now() - HOUR)];
    mesh.append(STREAM, 1, deviceCall("a", { expires_at: (Date.now() - HOUR - 50_000) / 1000 }));
    const { executor, session, ran } = newExecutor(mesh);
    await executor.attach(session);
    await mesh.until(() => posts().length === 1);
    expect(ran).toHaveLength(1);
    await executor.close();
  });
});

describe("a post", () => {
  it("is repeated over network errors and server errors, the same each time, and the tool is run once", async () => {
    const replies = ["cut", { status: 503, body: {} }, { status: 500, body: {} }] as const;
    let next = 0;
    mesh.answer = () => replies[next++] ?? { status: 200, body: { resolved: true } };
    const { executor, session, ran, types } = newExecutor(mesh);
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 4);
    await executor.idle();
    expect(new Set(posts().map(({ body }) => JSON.stringify(body))).size).toBe(1);
    expect(ran).toHaveLength(1);
    expect(types().at(-1)).toBe("delivered");
    await executor.close();
  });

  it("whose 200 was lost is delivered when the mesh says that the same result stands", async () => {
    let first = true;
    mesh.answer = () => {
      if (!first) return { status: 409, body: { message: "m", error: { code: "already_resolved" }, same: true } };
      first = false;
      return "cut";
    };
    const { executor, session, types } = newExecutor(mesh);
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 2);
    await executor.idle();
    expect(types()).toEqual(["started", "answered", "delivered"]);
    await executor.close();
  });

  it.each([400, 403, 404, 409, 410, 413])("that is refused with %i is final", async (status) => {
    const ledger = createMemoryCallLedger();
    mesh.answer = () => ({ status, body: { message: "No.", error: { code: "no", message: "No." } } });
    const { executor, session, events } = newExecutor(mesh, { ledger });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    await executor.idle();
    expect(posts()).toHaveLength(1);
    expect(events.at(-1)).toMatchObject({ type: "refused", error: { status, code: "no", message: "No." } });
    expect(await ledger.get("s/a")).toMatchObject({ state: "closed" });
    await executor.close();
  });

  it("is given up when the call's time is over, and the result is kept for the next delivery", async () => {
    const clock = createFakeClock(Date.now());
    const ledger = createMemoryCallLedger();
    mesh.answer = () => ({ status: 503, body: {} });
    const { executor, session, types } = newExecutor(mesh, { clock, ledger });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    while (!types().includes("undelivered")) await clock.advance(500);
    expect(posts().length).toBeGreaterThan(5);
    expect(clock.nowMs() - Date.now()).toBeLessThan(31_000);
    expect(await ledger.get("s/a")).toMatchObject({ state: "answered" });
    await executor.close();
  });
});

describe("the ledger", () => {
  const broken = (more: Partial<CallLedger>): CallLedger => ({ ...createMemoryCallLedger(), ...more });
  const fail = () => Promise.reject(new Error("disk full"));

  it("that does not work lets no call be run", async () => {
    const { executor, session, ran } = newExecutor(mesh, { ledger: broken({ claim: fail }) });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject({ status: "error", error: { code: "ledger_unavailable" } });
    expect(ran).toEqual([]);
    await executor.close();
  });

  it("that fails afterwards does not keep the result from the mesh", async () => {
    const { executor, session, types } = newExecutor(mesh, { ledger: broken({ put: fail }) });
    await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    await mesh.until(() => posts().length === 1);
    expect(posts()[0]?.body).toMatchObject({ status: "ok" });
    expect(types()).toContain("ledger_failed");
    await executor.close();
  });

  it("that two executors share lets one of them run the call, and the other leaves it alone", async () => {
    const ledger = createMemoryCallLedger();
    const release = Promise.withResolvers<string>();
    const runs: string[] = [];
    const run = () => {
      runs.push("run");
      return release.promise;
    };
    const shared = { ledger, locks: navigator.locks, tools: tool(run) };
    const executors = [newExecutor(mesh, shared), newExecutor(mesh, shared)];
    for (const { executor, session } of executors) await executor.attach(session);
    mesh.append(STREAM, 1, deviceCall("a"));
    const all = () => executors.flatMap(({ types }) => types());
    while (!all().includes("elsewhere")) await new Promise((turn) => setImmediate(turn));
    release.resolve("done");
    await Promise.all(executors.map(({ executor }) => executor.idle()));
    expect(runs).toHaveLength(1);
    expect(posts()).toMatchObject([{ body: { status: "ok", result: "done" } }]);
    for (const { executor } of executors) await executor.close();
  });
});

describe("an executor", () => {
  it("gives the declarations of its device tools and of no others", () => {
    const some = { description: "d", parameters: { type: "object" }, run: () => 1 };
    const { executor } = newExecutor(mesh, { tools: { device_a: some, highlight: some } });
    expect(executor.deviceTools).toEqual([{ tool_id: "device_a", description: "d", parameters: { type: "object" } }]);
  });

  it("refuses a declaration that a mesh would not take, with the place", () => {
    const blank = { description: " ", parameters: {}, run: () => 1 };
    expect(() => newExecutor(mesh, { tools: { device_a: blank } })).toThrow(/^tools\.device_a: .*must not be blank/s);
  });

  it("says that a mesh refuses the stream, that it was told to stop, that it is closed", async () => {
    const { executor, client, session } = newExecutor(mesh);
    mesh.refuse = { status: 404, body: { error: { code: "no_such_session", message: "There is none." } } };
    await expect(executor.attach(session)).rejects.toMatchObject({ code: "no_such_session" });
    const stop = AbortSignal.abort(new Error("enough"));
    await expect(executor.attach(client.session("s"), { signal: stop })).rejects.toThrow("enough");
    await executor.close();
    await expect(executor.attach(session)).rejects.toThrow("closed");
    await expect(executor.serveRun(client.run("r"))).rejects.toThrow("closed");
  });

  it("shows the conversation's events on the same stream, and ends with it", async () => {
    const seen: string[] = [];
    const { executor, session } = newExecutor(mesh);
    const attachment = await executor.attach(session, { onEvent: ({ type }) => seen.push(type) });
    mesh.append(STREAM, 1, { type: "warning", payload: { code: "c", message: "m" }, ts: 1 });
    mesh.greet = () => [{ type: "stream_end", payload: { reason: "session_ended" }, ts: 1 }];
    mesh.cut(STREAM);
    expect(await attachment.ended).toEqual({ reason: "session_ended" });
    expect(seen.slice(0, 2)).toEqual(["session_state", "warning"]);
    await executor.close();
  });
});
