/** The device tool bridge: how a call reaches the client and its result the agent. */
import { expect, it } from "vitest";
import { asks, says } from "../../packages/server/src/test-runs.ts";
import { bridgeWorlds, SEND_SMS, SMS_ARGUMENTS } from "../../packages/server/src/testing/bridge-world.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

describeOnBothStores("the device tool bridge, flow", (open) => {
  const { start } = bridgeWorlds(open);

  it(
    cites(
      "declare, call, deliver, execute, result, resolve: over the session's stream alone",
      "bridge.intro.2",
      "bridge.flow.declare",
      "bridge.flow.call",
      "bridge.flow.deliver",
      "bridge.flow.execute",
      "bridge.flow.result",
      "bridge.flow.resolve",
      "bridge.flow.2",
      "bridge.declare.1",
      "bridge.receive.1",
      "bridge.receive.2",
      "bridge.receive.8",
      "bridge.execute.1",
      "bridge.execute.2",
      "bridge.execute.3a",
      "bridge.execute.3b",
      "bridge.codes.200",
    ),
    async () => {
      const world = await start();
      const stream = await world.stream();
      const { body } = await world.query();
      const frame = await stream.next("device_tool_call");
      expect(frame.payload).toMatchObject({ tool_id: SEND_SMS.tool_id, args: SMS_ARGUMENTS });
      expect(world.requests).toHaveLength(1);
      expect((await world.call("GET", `/api/runs/${body.run_id}`)).body.status).toBe("running");

      const result = { delivered: true, message_id: "sms_88213" };
      const posted = await world.post(String(frame.payload.call_id), {
        call_token: frame.payload.call_token,
        status: "ok",
        result,
      });
      expect([posted.status, posted.body]).toEqual([200, { resolved: true }]);
      expect(await world.reply(body.run_id)).toBe(JSON.stringify({ status: "ok", result }));
      expect(world.requests).toHaveLength(2);
      await stream.next("run.finished");
      const types = stream.frames.map(({ type }) => type).filter((type) => type.startsWith("device_tool_call"));
      expect(types).toEqual(["device_tool_call", "device_tool_call.settled"]);
    },
  );

  it(
    cites(
      "the page's own requests are accepted, and the frame is written as there",
      "bridge.declare.sample",
      "bridge.receive.sample",
      "bridge.execute.sample-ok",
    ),
    async () => {
      const world = await start({ apiKeys: ["mewbo-key"] });
      const headers = { "x-api-key": "mewbo-key" };
      const send = (path: string, raw: string) =>
        world.server.call("POST", path, { raw, headers: { ...headers, "content-type": "application/json" } });
      const session = `/api/sessions/${(await send("/api/sessions", "{}")).body.session_id}`;
      const response = await fetch(`${world.server.url}${session}/stream`, { headers });
      const declared = await send(
        `${session}/query`,
        `{
          "query": "Text mom that I will be late.",
          "context": {
            "device_tools": [
              {
                "tool_id": "device_send_sms",
                "description": "Send an SMS to a phone number.",
                "parameters": {
                  "type": "object",
                  "properties": {
                    "to":   { "type": "string" },
                    "body": { "type": "string" }
                  },
                  "required": ["to", "body"]
                }
              }
            ]
          }
        }`,
      );
      expect(declared.status).toBe(202);

      const reader = response.body?.getReader();
      let text = "";
      while (!/"device_tool_call",.*\n\n/.test(text))
        text += Buffer.from((await reader?.read())?.value ?? []).toString();
      await reader?.cancel();
      const line = /^data: (\{"type":"device_tool_call","payload":.*\})$/m.exec(text)?.[1] ?? "";
      const { payload } = JSON.parse(line);
      expect(Object.keys(payload)).toEqual(["call_id", "call_token", "tool_id", "args", "expires_at"]);
      expect(payload).toMatchObject({ tool_id: "device_send_sms", args: SMS_ARGUMENTS });

      const posted = await send(
        `${session}/device_tools/${payload.call_id}/result`,
        `{
          "call_token": "${payload.call_token}",
          "status": "ok",
          "result": { "delivered": true, "message_id": "sms_88213" }
        }`,
      );
      expect([posted.status, posted.body]).toEqual([200, { resolved: true }]);
    },
  );

  it(cites("a device tool looks to the agent exactly like a built-in one", "bridge.intro.3"), async () => {
    const builtIn = { name: "clock", description: "Tells the time.", parameters: { type: "object" } };
    const world = await start({
      tools: [{ definition: builtIn, ownDeadline: false, execute: async () => ({ success: true, content: "noon" }) }],
      answer: async ({ messages }) =>
        messages.at(-1)?.role === "user"
          ? asks(["clock", {}, "call_1"], [SEND_SMS.tool_id, SMS_ARGUMENTS, "call_2"])
          : says("Told."),
    });
    const { callId, ok, runId } = await world.withCall();
    await world.post(callId, ok);
    await world.reply(runId);
    const [asked, read] = world.requests;
    expect(asked?.tools).toHaveLength(2);
    expect(asked?.tools).toEqual(
      expect.arrayContaining([
        builtIn,
        { name: SEND_SMS.tool_id, description: SEND_SMS.description, parameters: SEND_SMS.parameters },
      ]),
    );
    expect(read?.messages.slice(-2)).toEqual([
      { role: "tool", toolCallId: "call_1", content: "noon" },
      { role: "tool", toolCallId: "call_2", content: '{"status":"ok","result":{"delivered":true}}' },
    ]);
  });

  it(cites("the agent may call another device tool with the first one's result", "bridge.flow.again"), async () => {
    const answers = [
      asks([SEND_SMS.tool_id, { to: "+1", body: "hi" }]),
      asks(["device_read_sms", {}]),
      says("All told."),
    ];
    const world = await start({ answer: async () => answers.shift() ?? says("no more") });
    const stream = await world.stream();
    const device_tools = [SEND_SMS, { ...SEND_SMS, tool_id: "device_read_sms" }];
    const { body } = await world.query({ context: { device_tools } });
    const first = await stream.next("device_tool_call");
    expect(stream.frames.filter(({ type }) => type === "device_tool_call")).toHaveLength(1);
    for (const frame of [first, undefined]) {
      const { payload } = frame ?? (await stream.next("device_tool_call", 2));
      const json = { call_token: payload.call_token, status: "ok", result: payload.tool_id };
      expect((await world.post(String(payload.call_id), json)).status).toBe(200);
    }
    expect(await world.reply(body.run_id)).toBe("All told.");
    const results = world.requests[2]?.messages.flatMap((message) =>
      message.role === "tool" ? [message.content] : [],
    );
    expect(results).toEqual([
      '{"status":"ok","result":"device_send_sms"}',
      '{"status":"ok","result":"device_read_sms"}',
    ]);
  });

  it(
    cites(
      "nothing is to be registered or polled: the reference has the result route, with its schemas",
      "bridge.flow.1a",
      "bridge.flow.1b",
      "bridge.implementation.4",
    ),
    async () => {
      const world = await start();
      const { body } = await world.call("GET", "/openapi.json");
      const routes = Object.entries<Record<string, unknown>>(body.paths).flatMap(([path, methods]) =>
        path.includes("device_tool") ? Object.keys(methods).map((method) => `${method} ${path}`) : [],
      );
      // The list of open calls is there to look at; a client that reads the stream does without.
      expect(routes.sort()).toEqual([
        "get /api/sessions/{session_id}/device_tools",
        "post /api/sessions/{session_id}/device_tools/{call_id}/result",
      ]);
      const { requestBody, responses } = body.paths["/api/sessions/{session_id}/device_tools/{call_id}/result"].post;
      expect(JSON.stringify(requestBody)).toContain("call_token");
      expect(JSON.stringify(responses["200"])).toContain("resolved");
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(["200", "400", "401", "403", "404", "409", "410"]));
    },
  );
});

describeOnBothStores("the device tool bridge, the pending call", (open) => {
  const { start } = bridgeWorlds(open);

  it(
    cites(
      "has exactly the five fields, by the names of the page",
      "bridge.receive.call_id",
      "bridge.receive.call_token",
      "bridge.receive.tool_id",
      "bridge.receive.args",
      "bridge.receive.expires_at",
      "bridge.receive.5",
    ),
    async () => {
      const world = await start();
      const before = Date.now() / 1000;
      const { frame, callId, ok } = await world.withCall();
      expect(frame.payload).toEqual({
        call_id: expect.any(String),
        call_token: expect.any(String),
        tool_id: "device_send_sms",
        args: SMS_ARGUMENTS,
        expires_at: expect.any(Number),
      });
      const wait = Number(frame.payload.expires_at) - before;
      expect(wait).toBeGreaterThan(29.9);
      expect(wait).toBeLessThan(60);
      expect((await world.post(callId, ok)).status).toBe(200);
    },
  );

  it(cites("has an object of arguments whatever the model wrote", "bridge.receive.args"), async () => {
    const written = ["[1]", '"x"', "null"];
    const world = await start({
      answer: async ({ messages }) => {
        if (messages.at(-1)?.role !== "user") return says("Done.");
        const call = { id: "call_1", name: SEND_SMS.tool_id, arguments: written.shift() ?? "{}" };
        return { content: null, toolCalls: [call], finishReason: "tool_calls" };
      },
    });
    for (let count = written.length; count > 0; count--) {
      const { frame, callId, ok, runId } = await world.withCall();
      expect(frame.payload.args).toEqual({});
      await world.post(callId, ok);
      await world.reply(runId);
    }
  });

  it(
    cites(
      "is not made when nobody is attached: the call fails at once and no event is appended",
      "bridge.receive.6",
      "bridge.receive.7a",
      "bridge.receive.7b",
    ),
    async () => {
      const world = await start();
      const gone = await world.stream();
      gone.close();
      await expect.poll(async () => (await world.server.backend.presence(world.sessionId)).streams).toBe(0);
      const asked = Date.now();
      const { body } = await world.query();
      expect(await world.reply(body.run_id)).toMatch(/^device_unavailable: /);
      expect(Date.now() - asked).toBeLessThan(5_000);
      const replayed = await world.stream();
      await replayed.next("session_state");
      expect(replayed.frames.map(({ type }) => type).filter((type) => type.startsWith("device_tool_call"))).toEqual([]);
    },
  );
});
