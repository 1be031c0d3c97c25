/** The device tool bridge: what the result route takes, what it refuses and how it says so. */
import { expect, it } from "vitest";
import { bridgeWorlds } from "../../packages/server/src/testing/bridge-world.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

describeOnBothStores("the device tool bridge, a result", (open) => {
  const { start } = bridgeWorlds(open);

  it(
    cites(
      "of status ok resolves the call with whatever JSON it holds",
      "bridge.execute.2",
      "bridge.execute.3a",
      "bridge.body.status",
      "bridge.body.result",
      "bridge.body.unknown",
    ),
    async () => {
      const world = await start();
      for (const [json, read] of [
        [{ status: "ok", result: { a: [1, null] } }, '{"status":"ok","result":{"a":[1,null]}}'],
        [{ status: "ok", result: "sent" }, '{"status":"ok","result":"sent"}'],
        [{ status: "ok", result: false }, '{"status":"ok","result":false}'],
        [{ status: "ok" }, '{"status":"ok","result":null}'],
        [{ status: "ok", result: 1, took_ms: 3 }, '{"status":"ok","result":1}'],
      ] as const) {
        const { callId, token, runId } = await world.withCall();
        expect((await world.post(callId, { call_token: token, ...json })).status).toBe(200);
        expect(await world.reply(runId)).toBe(read);
      }
    },
  );

  it(
    cites(
      "of status error is a failed step, and the run continues with it in context",
      "bridge.execute.4",
      "bridge.execute.5a",
      "bridge.execute.sample-error",
      "bridge.execute.6a",
      "bridge.execute.6b",
      "bridge.execute.3b",
      "bridge.body.error",
      "bridge.body.status",
      "bridge.body.unknown",
    ),
    async () => {
      const world = await start();
      const denied = { code: "permission_denied", message: "The user denied SMS permission." };
      for (const [error, read] of [
        [denied, "permission_denied: The user denied SMS permission."],
        [{ message: "No signal." }, "device_error: No signal."],
        [{ code: "no_signal", message: " " }, "no_signal: The device reported an error."],
        [{ code: "x", message: "m", stack: "at Sms.kt" }, "x: m"],
      ] as const) {
        const { callId, token, runId, stream } = await world.withCall();
        const posted = await world.post(callId, { call_token: token, status: "error", error });
        expect([posted.status, posted.body]).toEqual([200, { resolved: true }]);
        expect((await stream.next("tool.finished")).payload).toMatchObject({ success: false });
        expect(await world.reply(runId)).toBe(read);
        expect(world.requests.at(-1)?.messages.at(-1)).toMatchObject({ role: "tool", content: read });
      }
    },
  );
});

describeOnBothStores("the device tool bridge, the result route answers", (open) => {
  const { start } = bridgeWorlds(open);

  const malformed = [
    ["without a status", { call_token: "T" }],
    ["with another status", { call_token: "T", status: "fine" }],
    ["without a token", { status: "ok", result: 1 }],
    ["with an empty token", { call_token: "", status: "ok" }],
    ["with an error that is no object", { call_token: "T", status: "error", error: "x" }],
    ["without an error", { call_token: "T", status: "error" }],
    ["with an error that says nothing", { call_token: "T", status: "error", error: { code: "", message: " " } }],
    ["with an empty error", { call_token: "T", status: "error", error: {} }],
    ["that is a list", []],
  ] as const;

  it(
    cites(
      "400 to a malformed body, and the call stays open",
      "bridge.codes.400",
      "bridge.codes.order",
      "bridge.body.call_token",
      "bridge.body.status",
      "bridge.body.error",
      "bridge.execute.5b",
    ),
    async () => {
      const world = await start();
      const { callId, ok } = await world.withCall();
      for (const [what, wrong] of malformed) {
        const json = "call_token" in wrong && wrong.call_token ? { ...wrong, call_token: ok.call_token } : wrong;
        const { status, body } = await world.post(callId, json);
        expect([what, status, body]).toEqual([
          what,
          400,
          { message: expect.any(String), error: { code: "invalid_result", message: body.message } },
        ]);
      }
      expect((await world.post(callId, ok)).status).toBe(200);
    },
  );

  it(cites("400 to a body that is no JSON object, whatever the call", "bridge.codes.400"), async () => {
    const world = await start();
    const path = `/api/sessions/${world.sessionId}/device_tools/unknown/result`;
    for (const raw of ["not json", "", "null", "[".repeat(200_000)]) {
      expect((await world.call("POST", path, { raw })).status).toBe(400);
    }
  });

  it(
    cites(
      "403 to a token that is not the call's, also once it is answered; before that it stays open",
      "bridge.codes.403",
      "bridge.codes.order",
      "bridge.receive.call_token",
    ),
    async () => {
      const world = await start();
      const { callId, ok } = await world.withCall();
      const wrong = await world.post(callId, { ...ok, call_token: "wrong" });
      expect([wrong.status, wrong.body.error.code, wrong.body.message]).toEqual([
        403,
        "wrong_call_token",
        expect.any(String),
      ]);
      expect((await world.post(callId, ok)).status).toBe(200);
      expect((await world.post(callId, { ...ok, call_token: "wrong" })).status).toBe(403);
    },
  );

  it(
    cites(
      "404 to a call that does not exist or is another session's, and the call stays open",
      "bridge.codes.404",
      "bridge.receive.call_id",
      "bridge.codes.order",
    ),
    async () => {
      const world = await start();
      const { callId, ok } = await world.withCall();
      const unknown = await world.post("call_unknown", ok);
      expect([unknown.status, unknown.body.error.code, unknown.body.message]).toEqual([
        404,
        "no_such_call",
        expect.any(String),
      ]);
      const other = await world.call("POST", "/api/sessions", { json: {} });
      expect((await world.post(callId, ok, other.body.session_id)).status).toBe(404);
      expect((await world.post(callId, ok)).status).toBe(200);
    },
  );

  it(
    cites(
      "409 to every later result, equal or not: the first one stands",
      "bridge.codes.409",
      "bridge.timeouts.4",
      "bridge.timeouts.5a",
      "bridge.timeouts.5b",
      "bridge.timeouts.6",
      "bridge.security.1b",
      "bridge.receive.call_token",
    ),
    async () => {
      const world = await start();
      const { callId, ok, runId } = await world.withCall();
      expect((await world.post(callId, ok)).status).toBe(200);
      const same = await world.post(callId, ok);
      expect([same.status, same.body.same, same.body.error.code, same.body.message]).toEqual([
        409,
        true,
        "already_resolved",
        expect.any(String),
      ]);
      const different = await world.post(callId, { ...ok, result: { delivered: false } });
      expect([different.status, different.body.same]).toEqual([409, false]);
      expect(await world.reply(runId)).toBe('{"status":"ok","result":{"delivered":true}}');
      expect((await world.post(callId, ok)).status).toBe(409);
      expect(world.requests).toHaveLength(2);
    },
  );

  it(
    cites("410 once the session is terminated, before it looks at the body", "bridge.codes.410", "bridge.codes.order"),
    async () => {
      const world = await start();
      const { callId } = await world.withCall();
      await world.call("DELETE", `/api/sessions/${world.sessionId}`);
      const { status, body } = await world.post(callId, { nonsense: true });
      expect([status, body.error.code, body.retryable]).toEqual([410, "session_terminated", false]);
    },
  );

  it(
    cites(
      "401 without a valid API key, as every other session route does, and the call stays open",
      "bridge.codes.401",
      "bridge.codes.order",
      "bridge.security.5a",
      "bridge.security.5b",
    ),
    async () => {
      const world = await start({ key: "mine", apiKeys: ["other"] });
      const { callId, ok } = await world.withCall();
      const session = `/api/sessions/${world.sessionId}`;
      const path = `${session}/device_tools/${callId}/result`;
      for (const headers of [{}, { "x-api-key": "wrong" }] as Record<string, string>[]) {
        expect((await world.server.call("POST", path, { json: ok, headers })).status).toBe(401);
        expect((await world.server.call("POST", `${session}/query`, { json: { query: "hi" }, headers })).status).toBe(
          401,
        );
        expect((await world.server.call("GET", `${session}/stream`, { headers })).status).toBe(401);
      }
      const other = await world.server.call("POST", path, { json: ok, headers: { "x-api-key": "other" } });
      expect([other.status, other.body.error.code]).toEqual([404, "no_such_session"]);
      expect((await world.post(callId, ok)).status).toBe(200);
    },
  );
});
