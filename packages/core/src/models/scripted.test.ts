import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { type ChatMessage, type Model, type ModelAnswer, ModelError, type ModelRequest } from "./contract.ts";
import type { ScriptInput } from "./script-schema.ts";
import { createScriptedModel, type ScriptedModelOptions } from "./scripted.ts";
import { ask, chatRequest, createLogKeeper } from "./test-support.ts";

const user = (content: string): ChatMessage => ({ role: "user", content });
const said = (content: string): ChatMessage => ({ role: "assistant", content });

/** A call of `tool` and its result. */
function toolTurn(result: unknown, tool = "device_action", id = "call_1"): readonly ChatMessage[] {
  return [
    { role: "assistant", content: null, toolCalls: [{ id, name: tool, arguments: "{}" }] },
    { role: "tool", toolCallId: id, content: typeof result === "string" ? result : JSON.stringify(result) },
  ];
}

const conversation = (...messages: readonly ChatMessage[]): ModelRequest =>
  chatRequest({ messages: [{ role: "system", content: "Help." }, ...messages] });

/** Plays a conversation against the model: every tool call gets the next result. */
async function play(model: Model, message: string, ...results: readonly unknown[]): Promise<string | null> {
  const messages: ChatMessage[] = [user(message)];
  for (const result of [...results, undefined]) {
    const answer = await ask(model, conversation(...messages));
    if (answer.toolCalls.length === 0) return answer.content;
    messages.push({ role: "assistant", content: answer.content, toolCalls: answer.toolCalls });
    for (const call of answer.toolCalls) {
      messages.push({ role: "tool", toolCallId: call.id, content: JSON.stringify(result) });
    }
  }
  throw new Error("the model did not come to an end");
}

async function errorOf(answering: Promise<ModelAnswer>): Promise<ModelError> {
  const error = await answering.then(
    () => undefined,
    (cause: unknown) => cause,
  );
  if (!(error instanceof ModelError)) throw new Error("no ModelError was thrown", { cause: error });
  return error;
}

describe("steps", () => {
  const script: ScriptInput = [
    { call: [{ tool: "device_action", arguments: { action: "read_battery" } }] },
    { reply: "Your battery is at {{ tool.data.level }} percent ({{tool.outcome}})." },
    { reply: "Goodbye." },
  ];

  it("answer one call of a conversation after the other", async () => {
    const model = createScriptedModel(script);
    expect(await ask(model, conversation(user("hi")))).toEqual({
      content: null,
      toolCalls: [{ id: "call_1_0", name: "device_action", arguments: '{"action":"read_battery"}' }],
      finishReason: "tool_calls",
    });
    const result = { outcome: "done", success: true, data: { level: 71 } };
    expect(await ask(model, conversation(user("hi"), ...toolTurn(result)))).toEqual({
      content: "Your battery is at 71 percent (done).",
      toolCalls: [],
      finishReason: "stop",
    });
    expect(await ask(model, conversation(user("hi"), ...toolTurn(result), said("ok"), user("bye")))).toMatchObject({
      content: "Goodbye.",
    });
  });

  it("do not mix conversations, and answer a repeated call alike", async () => {
    const model = createScriptedModel(script);
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, level) => play(model, "hi", { outcome: "done", data: { level } })),
    );
    expect(replies).toEqual(Array.from({ length: 20 }, (_, level) => `Your battery is at ${level} percent (done).`));
    expect(await ask(model, conversation(user("hi")))).toEqual(await ask(model, conversation(user("hi"))));
  });

  it("come to an end", async () => {
    const model = createScriptedModel([{ reply: "One." }], { name: "demo.yaml", places: ["demo.yaml:2"] });
    const error = await errorOf(ask(model, conversation(user("hi"), said("One."), user("more please"))));
    expect(error.kind).toBe("unscripted");
    expect(error.message).toBe(
      'demo.yaml has nothing for this call. Came: call 2 of the conversation, call 1 since the user spoke, to the model "gpt-4o-mini"; the user said "more please". Expected one of: demo.yaml:2 (step 1).',
    );
  });
});

describe("rules", () => {
  const script: ScriptInput = [
    { when: { last_user: "battery" }, call: [{ tool: "device_action", arguments: { action: "read_battery" } }] },
    { when: { tool_result: { tool: "device_action", outcome: "done" } }, reply: "{{tool.data.level}} percent." },
    { when: { tool_result: { tool: "device_action", reason: "dead_token" } }, reply: "Reinstall the app." },
    { when: { tool_result: { success: false } }, reply: "That did not work: {{tool.error}}" },
    { when: { tool_result: { contains: "PAPER" } }, reply: "It said: {{tool}}" },
    { when: { last_user: "hello", model: "polite" }, reply: "Good day." },
    { when: { last_user: "hello" }, reply: "You said {{user}}." },
    { when: { turn: 3 }, reply: "Enough." },
  ];

  it.each<[string, readonly ChatMessage[], string | null]>([
    ["the user's words, in any case", [user("Is my BATTERY OK?")], null],
    ["an outcome", [user("battery"), ...toolTurn({ outcome: "done", data: { level: 9 } })], "9 percent."],
    [
      "a reason",
      [user("battery"), ...toolTurn({ outcome: "unreachable", reason: "dead_token" })],
      "Reinstall the app.",
    ],
    ["success", [user("battery"), ...toolTurn({ success: false, error: "no" })], "That did not work: no"],
    ["text that is no JSON", [user("print"), ...toolTurn("out of paper", "print")], "It said: out of paper"],
    ["the newest message alone", [user("battery"), said("It is fine."), user("hello")], "You said hello."],
    ["which call of the turn it is", [user("x"), ...toolTurn("a"), ...toolTurn("b")], "Enough."],
  ])("fit %s", async (_what, messages, content) => {
    expect(await ask(createScriptedModel(script), conversation(...messages))).toMatchObject({ content });
  });

  it("fit the model's name", async () => {
    const model = createScriptedModel(script);
    expect(await ask(model, { ...conversation(user("hello")), model: "polite" })).toMatchObject({
      content: "Good day.",
    });
  });

  it("play a whole conversation", async () => {
    const model = createScriptedModel(script);
    expect(await play(model, "battery?", { outcome: "done", data: { level: 71 } })).toBe("71 percent.");
    expect(await play(model, "battery?", { success: false, error: "Try later." })).toBe(
      "That did not work: Try later.",
    );
  });

  it("look at every result of a turn, and quote the one that fits", async () => {
    const model = createScriptedModel(script);
    const messages: ChatMessage[] = [
      user("battery"),
      {
        role: "assistant",
        content: null,
        toolCalls: [
          { id: "a", name: "search", arguments: "{}" },
          { id: "b", name: "device_action", arguments: "{}" },
        ],
      },
      { role: "tool", toolCallId: "a", content: '{"outcome":"done"}' },
      { role: "tool", toolCallId: "b", content: '{"outcome":"done","data":{"level":5}}' },
    ];
    expect(await ask(model, conversation(...messages))).toMatchObject({ content: "5 percent." });
  });

  it("see through the message that carries a result's images", async () => {
    const model = createScriptedModel(script);
    const image: ChatMessage = {
      role: "user",
      content: [
        { type: "text", text: "Returned by device_action:" },
        { type: "image", mediaType: "image/png", base64: "aW1hZ2U=" },
      ],
    };
    const messages = [user("battery"), ...toolTurn({ outcome: "done", data: { level: 9 } }), image];
    expect(await ask(model, conversation(...messages))).toMatchObject({ content: "9 percent." });
  });

  it("refuse a call that none fits, and say what came and what was expected", async () => {
    const model = createScriptedModel(script.slice(0, 4));
    const refused = await errorOf(ask(model, conversation(user("battery"), ...toolTurn({ outcome: "declined" }))));
    expect(refused.kind).toBe("unscripted");
    expect(refused.message).toContain(
      'Came: call 2 of the conversation, call 2 since the user spoke, to the model "gpt-4o-mini"; the user said "battery"; device_action returned "{\\"outcome\\":\\"declined\\"}".',
    );
    expect(refused.message).toContain('Expected one of: rule 1: when the user says "battery"; rule 2: when');
    expect(refused.message).toContain('device_action returned outcome "done"');
  });

  it("refuse to quote what the result does not hold", async () => {
    const model = createScriptedModel(script);
    const messages = [user("battery"), ...toolTurn({ outcome: "done" })];
    const refused = await errorOf(ask(model, conversation(...messages)));
    expect(refused.kind).toBe("unscripted");
    expect(refused.message).toMatch(/^rule 2: .* quotes \{\{tool\.data\.level\}\}, but the tool returned "\{/);
  });
});

describe("what is quoted", () => {
  const quoting = (reply: string, result: unknown) =>
    ask(createScriptedModel([{ reply: "first" }, { reply }]), conversation(user("Hi {{tool}}"), ...toolTurn(result)));

  it.each<[string, unknown, string]>([
    ["{{tool.data}}", { data: { a: [1, null] } }, '{"a":[1,null]}'],
    ["{{tool.list.1.name}}", { list: [{ name: "a" }, { name: "b" }] }, "b"],
    ["{{tool.flag}} {{tool.none}}", { flag: false, none: null }, "false null"],
    ["{{tool.with-dash}}", { "with-dash": "x" }, "x"],
    ["{{user}}", {}, "Hi {{tool}}"],
    ["{ {tool} } $& {{tool.a}}", { a: "$1 $& {{user}}" }, "{ {tool} } $& $1 $& {{user}}"],
  ])("%s", async (reply, result, content) => {
    expect(await quoting(reply, result)).toMatchObject({ content });
  });

  it.each([
    "{{tool.constructor.name}}",
    "{{tool.__proto__}}",
    "{{tool.list.length}}",
    "{{tool.list.-1}}",
    "{{tool.a.b.c}}",
  ])("is only what the result itself holds: %s", async (reply) => {
    expect((await errorOf(quoting(reply, { list: [1], a: "x" }))).kind).toBe("unscripted");
  });
});

describe("a script that breaks the rules", () => {
  it.each<[string, unknown, string]>([
    ["says nothing", [{}], "must have a reply or a call"],
    ["is empty", [], "must list at least one"],
    ["mixes steps and rules", [{ reply: "a" }, { when: { last_user: "b" }, reply: "c" }], "all steps or all rules"],
    ["has an unknown key", [{ replay: "a" }], "replay"],
    ["has an unknown condition", [{ when: { user: "a" }, reply: "b" }], "user"],
    ["quotes the unknown", [{ reply: "{{device.name}}" }], "{{device.name}}"],
    ["quotes nothing", [{ reply: "{{}}" }], "{{}}"],
    ["quotes a result it does not ask for", [{ when: { last_user: "a" }, reply: "{{tool.x}}" }], "does not ask"],
    ["calls nothing", [{ call: [] }], "at least one call"],
  ])("is refused when it %s", (_what, script, says) => {
    expect(() => createScriptedModel(script as ScriptInput)).toThrow(says);
  });
});

describe("the way an answer comes", () => {
  const setUp = (script: ScriptInput, options: ScriptedModelOptions = {}) => {
    const clock = createFakeClock();
    return { clock, model: createScriptedModel(script, { clock, ...options }) };
  };

  it("is at once, in one piece", async () => {
    const { model } = setUp([{ reply: "one two" }]);
    const told: string[] = [];
    await ask(model, conversation(user("hi")), (text) => told.push(text));
    expect(told).toEqual(["one two"]);
  });

  it("may be word by word", async () => {
    const { model, clock } = setUp([{ reply: "one two\n three ", stream_words: true }]);
    const told: string[] = [];
    const answering = ask(model, conversation(user("hi")), (text) => told.push(text));
    await clock.advance(0);
    expect(await answering).toMatchObject({ content: "one two\n three " });
    expect(told).toEqual(["one", " two", "\n three", " "]);
  });

  it("may take its time, unless it is aborted", async () => {
    const { model, clock } = setUp([{ reply: "one", delay_ms: 1000 }]);
    const controller = new AbortController();
    let over = false;
    const first = ask(model, conversation(user("hi"))).then(() => {
      over = true;
    });
    const second = errorOf(model.answer(conversation(user("hi")), { signal: controller.signal }));
    await clock.advance(999);
    expect(over).toBe(false);
    controller.abort();
    expect((await second).kind).toBe("aborted");
    await clock.advance(1);
    await first;
    expect(clock.pendingTimers).toBe(0);
    const aborted = model.answer(conversation(user("hi")), { signal: controller.signal });
    expect((await errorOf(aborted)).kind).toBe("aborted");
  });

  it("may hold text and calls at once", async () => {
    const { model } = setUp([{ reply: "Let me look.", call: [{ tool: "a" }, { tool: "b", arguments: { x: 1 } }] }]);
    expect(await ask(model, conversation(user("hi")))).toEqual({
      content: "Let me look.",
      toolCalls: [
        { id: "call_1_0", name: "a", arguments: "{}" },
        { id: "call_1_1", name: "b", arguments: '{"x":1}' },
      ],
      finishReason: "tool_calls",
    });
  });

  it("leaves behind what was never used", async () => {
    const logger = createLogKeeper();
    const places = ["demo.yaml:1", "demo.yaml:5"];
    const script: ScriptInput = [
      { when: { last_user: "a" }, reply: "A" },
      { when: { last_user: "b" }, reply: "B" },
    ];
    const { model } = setUp(script, { logger, name: "demo.yaml", places });
    expect(model.unused()).toHaveLength(2);
    await ask(model, conversation(user("a")));
    expect(model.unused()).toEqual(['demo.yaml:5 (rule 2: when the user says "b")']);
    await model.close();
    expect(logger.lines).toMatchObject([{ level: "info", fields: { script: "demo.yaml", entries: model.unused() } }]);
    await ask(model, conversation(user("b")));
    await model.close();
    expect(logger.lines).toHaveLength(1);
  });

  it("may be a function's", async () => {
    const model = createScriptedModel((request) => {
      if (request.messages.length > 2) throw new ModelError("transient", "busy");
      return { content: `${request.messages.length}`, toolCalls: [], finishReason: "stop" };
    });
    const told: string[] = [];
    expect(await ask(model, conversation(user("hi")), (text) => told.push(text))).toMatchObject({ content: "2" });
    expect(told).toEqual(["2"]);
    expect((await errorOf(ask(model, conversation(user("hi"), user("hi"))))).kind).toBe("transient");
  });
});
