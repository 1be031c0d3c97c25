/** The device tool bridge: which tools a client may declare, when that is judged, and how long it lasts. */
import { expect, it } from "vitest";
import { says } from "../../packages/server/src/test-runs.ts";
import { type BridgeWorld, bridgeWorlds, SEND_SMS } from "../../packages/server/src/testing/bridge-world.ts";
import { describeOnBothStores } from "../support/stores.ts";
import { cites } from "./cites.ts";

const OTHER = { ...SEND_SMS, tool_id: "device_read_sms" };

/** Names of the tools that the model was shown in its newest request. */
function shown({ requests }: BridgeWorld): readonly string[] | undefined {
  return requests.at(-1)?.tools.map(({ name }) => name);
}

describeOnBothStores("the device tool bridge, a declaration", (open) => {
  const { start } = bridgeWorlds(open);
  const answer = async () => says("no tools");

  const wrong: readonly (readonly [what: string, device_tools: unknown, message: RegExp])[] = [
    ["without the prefix", [{ ...SEND_SMS, tool_id: "send_sms" }], /context\.device_tools\.0\.tool_id/],
    ["with an empty suffix", [{ ...SEND_SMS, tool_id: "device_" }], /device_tools\.0\.tool_id/],
    ["with 49 characters behind the prefix", [{ ...SEND_SMS, tool_id: `device_${"x".repeat(49)}` }], /0\.tool_id/],
    ["with an upper case letter", [{ ...SEND_SMS, tool_id: "device_Sms" }], /0\.tool_id/],
    ["with a hyphen", [{ ...SEND_SMS, tool_id: "device_send-sms" }], /0\.tool_id/],
    ["with a trailing newline", [{ ...SEND_SMS, tool_id: "device_a\n" }], /0\.tool_id/],
    ["without a name", [{ ...SEND_SMS, tool_id: undefined }], /0\.tool_id/],
    ["with a blank description", [{ ...SEND_SMS, description: " \n" }], /0\.description/],
    ["without a description", [{ ...SEND_SMS, description: undefined }], /0\.description/],
    ["without parameters", [{ ...SEND_SMS, parameters: undefined }], /0\.parameters/],
    ["with parameters that are no object", [{ ...SEND_SMS, parameters: [] }], /0\.parameters/],
    ["with parameters of another type", [{ ...SEND_SMS, parameters: { type: "array" } }], /0\.parameters\.type/],
    ["with a fourth field", [{ ...SEND_SMS, strict: true }], /0\.strict: unknown field/],
    ["that is no object", ["device_send_sms"], /device_tools\.0/],
    [
      "with two entries of one tool_id",
      [SEND_SMS, OTHER, { ...SEND_SMS, description: "Another." }],
      /2\.tool_id: duplicate/,
    ],
    ["that is not an array", { device_send_sms: SEND_SMS }, /must be an array/],
  ];

  it(
    cites(
      "that is malformed is rejected with 400 before anything persists, and poisons nothing",
      "bridge.declare.1",
      "bridge.declare.2",
      "bridge.declare.tool_id",
      "bridge.declare.description",
      "bridge.declare.parameters",
      "bridge.declare.3",
      "bridge.declare.5a",
      "bridge.declare.5b",
      "bridge.declare.5c",
      "bridge.declare.5d",
    ),
    async () => {
      const world = await start({ answer });
      const session = `/api/sessions/${world.sessionId}`;
      const before = await world.call("GET", session);
      for (const [what, device_tools, message] of wrong) {
        const { status, body } = await world.query({ context: { device_tools } });
        expect([what, status, body.error.code]).toEqual([what, 400, "invalid_device_tools"]);
        expect(body.error.message).toMatch(message);
        expect((await world.call("GET", session)).body).toEqual(before.body);
      }
      expect((await world.call("GET", `${session}/history`)).body.messages).toEqual([]);
      const stream = await world.stream();
      await stream.next("session_state");
      expect(stream.frames.map(({ type }) => type)).toEqual(["session.created", "session_state"]);
      expect(await world.server.backend.runs({ sessionId: world.sessionId })).toEqual([]);
      const next = await world.query({ context: {} });
      expect(await world.reply(next.body.run_id)).toBe("no tools");
      expect(shown(world)).toEqual([]);
    },
  );

  it(
    cites(
      "whose parameters leave out their type makes no provider refuse the run",
      "bridge.declare.parameters",
      "bridge.declare.5d",
    ),
    async () => {
      const world = await start({ answer });
      const { body } = await world.query({
        context: { device_tools: [{ ...SEND_SMS, parameters: { properties: {} } }] },
      });
      expect(await world.reply(body.run_id)).toBe("no tools");
      expect(shown(world)).toEqual(["device_send_sms"]);
    },
  );

  it(cites("cannot shadow a built-in tool", "bridge.declare.3", "bridge.declare.4"), async () => {
    const definition = { name: "clock", description: "Tells the time.", parameters: { type: "object" } };
    const clock = { definition, ownDeadline: false, execute: async () => ({ success: true, content: "noon" }) };
    const world = await start({ answer, tools: [clock] });
    for (const tool_id of ["clock", "device_action"]) {
      const { status } = await world.query({ context: { device_tools: [{ ...SEND_SMS, tool_id }] } });
      expect(status).toBe(400);
    }
    const { body } = await world.query({ context: { device_tools: [SEND_SMS] } });
    await world.reply(body.run_id);
    expect(world.requests[0]?.tools.find(({ name }) => name === "clock")).toEqual(definition);
    expect(shown(world)).toHaveLength(2);
  });

  it(
    cites(
      "may have names of 8 to 55 characters, and its schema reaches the model with no change at all",
      "bridge.declare.tool_id",
      "bridge.declare.parameters",
    ),
    async () => {
      const world = await start({ answer });
      const parameters = {
        type: "object",
        properties: { to: { $ref: "#/$defs/x" } },
        $defs: { x: { type: "string" } },
        x: [1, null],
      };
      const device_tools = ["device_a", `device_${"x".repeat(48)}`, "device_9_"].map((tool_id) => ({
        tool_id,
        description: "Does.",
        parameters,
      }));
      const { body } = await world.query({ context: { device_tools } });
      await world.reply(body.run_id);
      expect(world.requests[0]?.tools).toEqual(
        device_tools.map(({ tool_id, description }) => ({ name: tool_id, description, parameters })),
      );
    },
  );
});

describeOnBothStores("the device tool bridge, a declaration that was stored", (open) => {
  const { start, store } = bridgeWorlds(open);
  const answer = async () => says("hello");

  async function created(world: BridgeWorld, device_tools: unknown) {
    const { status, body } = await world.call("POST", "/api/sessions", { json: { context: { device_tools } } });
    expect(status).toBe(201);
    return async (more: object = {}) => {
      const path = `/api/sessions/${body.session_id}/query`;
      const asked = await world.call("POST", path, { json: { query: "go", ...more } });
      expect(await world.reply(asked.body.run_id)).toBe("hello");
      return shown(world);
    };
  }

  it(
    cites(
      "at create time persists: every later message has the tools",
      "bridge.declare.6a",
      "bridge.declare.6b",
      "bridge.declare.7b",
    ),
    async () => {
      const ask = await created(await start({ answer }), [SEND_SMS]);
      expect(await ask()).toEqual(["device_send_sms"]);
      expect(await ask({ context: { locale: "de" } })).toEqual(["device_send_sms"]);
    },
  );

  it(
    cites(
      "is judged when a message is sent, and a wrong one is dropped then",
      "bridge.declare.7a",
      "bridge.declare.5d",
    ),
    async () => {
      const ask = await created(await start({ answer }), [{ tool_id: "no_prefix" }]);
      expect(await ask()).toEqual([]);
      expect(await ask({ context: { device_tools: [SEND_SMS] } })).toEqual(["device_send_sms"]);
    },
  );

  it(cites("is kept current by sending it again: the newest counts, whole", "bridge.declare.7c"), async () => {
    const ask = await created(await start({ answer }), [SEND_SMS]);
    expect(await ask({ context: { device_tools: [OTHER] } })).toEqual(["device_read_sms"]);
    expect(await ask()).toEqual(["device_read_sms"]);
    expect(await ask({ context: { device_tools: [OTHER, SEND_SMS] } })).toEqual(["device_read_sms", "device_send_sms"]);
  });

  it(
    cites(
      "is accepted when an idle session is engaged again, also by a mesh that was started anew",
      "bridge.declare.8",
      "bridge.declare.6b",
    ),
    async () => {
      const kept = await store();
      const first = await start({ answer, ...(kept ? { backend: kept.backend } : {}) });
      const { body } = await first.query();
      await first.reply(body.run_id);
      await first.close();
      const backend = await kept?.reopen();
      const second = await start({ sessionId: first.sessionId, ...(backend ? { backend } : {}) });
      const { callId, ok, runId } = await second.withCall({ context: {} });
      await second.post(callId, ok);
      expect(await second.reply(runId)).toContain("delivered");
    },
  );
});
