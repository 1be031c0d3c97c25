import { Secret, systemClock } from "@leafmesh/protocol";
import { type OpenAIServerOptions, startOpenAIServer } from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { createOpenAIChatModel } from "./openai-chat.ts";
import { ask, batteryTool, chatRequest, createLogKeeper, createTestModel, TEST_KEY } from "./test-support.ts";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function setUp(options: OpenAIServerOptions = {}, headers?: Record<string, string>) {
  const server = await startOpenAIServer(options);
  const logger = createLogKeeper();
  const model = createTestModel(server.baseUrl, {
    logger,
    endpoint: {
      name: "local",
      baseUrl: server.baseUrl,
      apiKey: new Secret(TEST_KEY),
      apiKeyPlace: "models.local.api_key",
      headers,
    },
  });
  open.push(server, model);
  return { server, model, logger };
}

describe("a call", () => {
  it("gives the text, the reason it stopped and the usage", async () => {
    const { model } = await setUp({
      script: [{ content: "Grüße, 世界 🌍!", usage: { prompt_tokens: 7, completion_tokens: 3 } }],
    });
    const told: string[] = [];
    const answer = await ask(model, chatRequest(), (text) => told.push(text));
    expect(answer).toEqual({
      content: "Grüße, 世界 🌍!",
      toolCalls: [],
      finishReason: "stop",
      usage: { inputTokens: 7, outputTokens: 3 },
    });
    expect(told.join("")).toBe("Grüße, 世界 🌍!");
  });

  it("gives tool calls in the order the model made them", async () => {
    const { model } = await setUp({
      script: [
        {
          content: "Let me look.",
          toolCalls: [
            { id: "a", name: "read_battery", arguments: { device: "phone" } },
            { id: "b", name: "read_battery", arguments: '{"device": "tablet"}' },
          ],
        },
      ],
    });
    expect(await ask(model, chatRequest({ tools: [batteryTool] }))).toMatchObject({
      content: "Let me look.",
      finishReason: "tool_calls",
      toolCalls: [
        { id: "a", name: "read_battery", arguments: '{"device":"phone"}' },
        { id: "b", name: "read_battery", arguments: '{"device": "tablet"}' },
      ],
    });
  });

  it("writes what the API expects, and nothing it would refuse", async () => {
    const { server, model } = await setUp({ apiKey: TEST_KEY });
    await ask(
      model,
      chatRequest({
        messages: [
          { role: "system", content: "Help." },
          {
            role: "user",
            content: [
              { type: "text", text: "What is this?" },
              { type: "image", mediaType: "image/png", base64: "aW1hZ2U=" },
            ],
          },
          {
            role: "assistant",
            content: null,
            toolCalls: [{ id: "call_1", name: "read_battery", arguments: '{"device":"phone"}' }],
          },
          { role: "tool", toolCallId: "call_1", content: "71" },
        ],
        tools: [batteryTool],
        toolChoice: "required",
        parallelToolCalls: false,
        temperature: 0.2,
        maxTokens: 800,
      }),
    );
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.path).toBe("/v1/chat/completions");
    expect(server.requests[0]?.headers).toMatchObject({
      "content-type": "application/json",
      authorization: `Bearer ${TEST_KEY}`,
    });
    expect(server.requests[0]?.body).toEqual({
      model: "gpt-4o-mini",
      stream: true,
      stream_options: { include_usage: true },
      tool_choice: "required",
      parallel_tool_calls: false,
      temperature: 0.2,
      max_tokens: 800,
      tools: [{ type: "function", function: batteryTool }],
      messages: [
        { role: "system", content: "Help." },
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: "data:image/png;base64,aW1hZ2U=" } },
          ],
        },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "call_1", type: "function", function: { name: "read_battery", arguments: '{"device":"phone"}' } },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: "71" },
      ],
    });
  });

  it("leaves out what has its usual value", async () => {
    const { server, model } = await setUp();
    await ask(model, chatRequest({ toolChoice: "none", parallelToolCalls: false }));
    await ask(model, chatRequest({ tools: [batteryTool] }));
    expect(Object.keys(server.requests[0]?.body ?? {})).toEqual(["model", "messages", "stream", "stream_options"]);
    expect(Object.keys(server.requests[1]?.body ?? {})).toEqual([
      "model",
      "messages",
      "tools",
      "stream",
      "stream_options",
    ]);
  });

  it("says of a schema without a type that it is of an object, which else is refused", async () => {
    const { server, model } = await setUp();
    const bare = { name: "beep", description: "Beeps.", parameters: { properties: {} } };
    await ask(model, chatRequest({ tools: [bare] }));
    expect(server.requests[0]?.body?.tools).toEqual([
      { type: "function", function: { ...bare, parameters: { type: "object", properties: {} } } },
    ]);
  });

  it("does not let what a model once wrote spoil every later request", async () => {
    const { server, model } = await setUp();
    await ask(
      model,
      chatRequest({
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", content: null, toolCalls: [] },
          {
            role: "assistant",
            content: null,
            toolCalls: [
              { id: "a", name: "rm -rf /", arguments: "{" },
              { id: "b", name: "x".repeat(100), arguments: "[1]" },
            ],
          },
          { role: "tool", toolCallId: "a", content: "error: there is no such tool" },
          { role: "tool", toolCallId: "b", content: "error: there is no such tool" },
        ],
      }),
    );
    expect(server.requests[0]?.body?.messages.slice(1, 3)).toEqual([
      { role: "assistant", content: "" },
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "a", type: "function", function: { name: "rm_-rf__", arguments: "{}" } },
          { id: "b", type: "function", function: { name: "x".repeat(64), arguments: "{}" } },
        ],
      },
    ]);
  });

  it("sends the operator's headers, which may replace the usual ones", async () => {
    const { server, model } = await setUp({}, { "X-Team": "phones", Authorization: "Basic abcdefgh" });
    await ask(model);
    expect(server.requests[0]?.headers).toMatchObject({ "x-team": "phones", authorization: "Basic abcdefgh" });
  });

  it("sends no authorization without a key, and trims a key that came from a file", async () => {
    const server = await startOpenAIServer();
    open.push(server);
    for (const apiKey of [undefined, new Secret("none"), new Secret(`${TEST_KEY}\n`)]) {
      const model = createOpenAIChatModel({
        endpoint: { name: "local", baseUrl: `${server.baseUrl}/`, apiKey, apiKeyPlace: "models.local.api_key" },
        clock: systemClock,
        logger: createLogKeeper(),
      });
      open.push(model);
      await ask(model);
    }
    expect(server.requests.map((request) => request.headers.authorization)).toEqual([
      undefined,
      undefined,
      `Bearer ${TEST_KEY}`,
    ]);
  });

  it("uses connections again", async () => {
    const { server, model } = await setUp();
    // A socket rests for one turn of the event loop after its answer, so calls without a pause take turns on two.
    for (let call = 0; call < 20; call++) await ask(model);
    expect(server.connections).toBeLessThanOrEqual(2);
    await Promise.all(Array.from({ length: 8 }, () => ask(model)));
    expect(server.connections).toBeLessThanOrEqual(10);
  });
});

describe("an answer in another form", () => {
  it("is understood when the server ignores `stream: true`", async () => {
    const { model } = await setUp({
      script: [{ content: "Hello there.", toolCalls: [{ id: "a", name: "read_battery", arguments: {} }] }],
      faults: [{ kind: "whole" }],
    });
    const told: string[] = [];
    expect(await ask(model, chatRequest({ tools: [batteryTool] }), (text) => told.push(text))).toEqual({
      content: "Hello there.",
      toolCalls: [{ id: "a", name: "read_battery", arguments: "{}" }],
      finishReason: "tool_calls",
      usage: { inputTokens: 60, outputTokens: 20 },
    });
    expect(told).toEqual(["Hello there."]);
  });

  it.each([1, 2, 3, 7, 64])("is understood in pieces of %i bytes", async (bytes) => {
    const content = "Grüße, 世界 🌍!";
    const { model } = await setUp({
      script: [{ content, toolCalls: [{ id: "a", name: "read_battery", arguments: { device: "電話" } }] }],
      faults: [{ kind: "split", bytes }],
    });
    const told: string[] = [];
    expect(await ask(model, chatRequest({ tools: [batteryTool] }), (text) => told.push(text))).toMatchObject({
      content,
      toolCalls: [{ id: "a", name: "read_battery", arguments: '{"device":"電話"}' }],
    });
    expect(told.join("")).toBe(content);
    expect(told.length).toBeGreaterThan(1);
  });

  it("hands text out while the rest is still to come", async () => {
    const { server, model } = await setUp({
      script: [{ content: "one two three" }],
      faults: [{ kind: "hang", afterFrames: 3 }],
    });
    const controller = new AbortController();
    const text = new Promise<string>((resolve) => {
      const answering = model.answer(chatRequest(), { signal: controller.signal, onText: resolve });
      answering.catch(() => {});
    });
    expect(await text).toBe("one two");
    controller.abort();
    expect(await server.requests[0]?.over).toBe("closed");
  });

  it("is over with [DONE], even when the server keeps the connection open", async () => {
    const chunk = { choices: [{ index: 0, delta: { content: "hi" }, finish_reason: "stop" }] };
    const { model, server } = await setUp({
      faults: [{ kind: "raw", chunks: [`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`], keepOpen: true }],
    });
    expect(await ask(model)).toMatchObject({ content: "hi" });
    expect(await server.requests[0]?.over).toBe("closed");
  });
});

describe("a field that the server does not know", () => {
  const full = chatRequest({ tools: [batteryTool], parallelToolCalls: false, temperature: 0.2, maxTokens: 800 });

  it.each([
    ["stream_options", {}],
    ["parallel_tool_calls", {}],
    ["temperature", {}],
    ["max_tokens", { max_completion_tokens: 800 }],
  ])("is left out, and stays left out: %s", async (field, expected) => {
    const { server, model, logger } = await setUp({ refusedFields: [field] });
    await ask(model, full);
    await ask(model, full);
    expect(server.requests).toHaveLength(3);
    const firstFields = Object.entries(server.requests[0]?.body ?? {});
    expect(server.requests[1]?.body).toEqual({
      ...Object.fromEntries(firstFields.filter(([name]) => name !== field)),
      ...expected,
    });
    expect(server.requests[2]?.text).toBe(server.requests[1]?.text);
    expect(logger.lines).toEqual([
      { level: "info", message: expect.any(String), fields: expect.objectContaining({ field, model: "gpt-4o-mini" }) },
    ]);
  });

  it("may be one of several", async () => {
    const { server, model } = await setUp({ refusedFields: ["temperature", "stream_options", "max_tokens"] });
    await ask(model, full);
    expect(server.requests).toHaveLength(4);
    await ask(model, full);
    expect(server.requests).toHaveLength(5);
  });

  it("counts for every model when it is the server's, for one model when it is the model's", async () => {
    const { server, model } = await setUp({ refusedFields: ["temperature", "stream_options"] });
    await ask(model, full);
    await ask(model, { ...full, model: "other" });
    expect(server.requests.map((request) => [request.body?.model, Object.keys(request.body ?? {}).length])).toEqual([
      ["gpt-4o-mini", 8],
      ["gpt-4o-mini", 7],
      ["gpt-4o-mini", 6],
      ["other", 7],
      ["other", 6],
    ]);
  });

  it("is told apart from a value that is wrong", async () => {
    const message = "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.";
    const { server, model } = await setUp({
      faults: [
        { kind: "status", status: 400, body: { error: { message, param: "max_tokens", code: "invalid_value" } } },
      ],
    });
    await expect(ask(model, full)).rejects.toMatchObject({
      kind: "bad_request",
      message: expect.stringContaining(message),
    });
    expect(server.requests).toHaveLength(1);
  });

  it("is not blamed for a field that was not sent", async () => {
    const { server, model } = await setUp({
      faults: [{ kind: "status", status: 400, body: { error: { message: "temperature is not supported" } } }],
    });
    await expect(ask(model)).rejects.toMatchObject({ kind: "bad_request" });
    expect(server.requests).toHaveLength(1);
  });
});

describe("settings that cannot work", () => {
  it.each([
    [{ baseUrl: "127.0.0.1:11434/v1" }, "models.local.base_url: not an http or https address"],
    [{ baseUrl: "ftp://127.0.0.1/v1" }, "models.local.base_url: not an http or https address"],
    [{ baseUrl: "http://user:pass@127.0.0.1/v1" }, "models.local.base_url: holds a user name or password"],
    [{ baseUrl: "http://169.254.169.254/v1" }, "models.local.base_url: is a link-local, metadata"],
    [{ baseUrl: "https://[::ffff:169.254.169.254]/v1" }, "models.local.base_url: is a link-local, metadata"],
    [{ baseUrl: "http://0xa9fea9fe/v1" }, "models.local.base_url: is a link-local, metadata"],
    [{ baseUrl: "http://8.8.8.8/v1" }, "models.local.base_url: is a public address; use https://"],
    [{ apiKey: new Secret("sk-\nx") }, "models.local.api_key: holds characters"],
    [{ headers: { "x-a": "1\r\nx-b: 2" } }, "models.local.headers.x-a: holds characters"],
    [{ headers: { "x a": "1" } }, "models.local.headers.x a: holds characters"],
  ])("are refused with their place: %#", (changes, message) => {
    const make = () =>
      createTestModel("http://127.0.0.1:1/v1", {
        endpoint: { name: "local", baseUrl: "http://127.0.0.1:1/v1", apiKeyPlace: "models.local.api_key", ...changes },
      });
    expect(make).toThrow(expect.objectContaining({ kind: "bad_request", message: expect.stringContaining(message) }));
  });

  it.each([
    ["http://127.0.0.1:1/v1", 0],
    ["http://[::1]:1/v1", 0],
    ["http://localhost:1/v1", 0],
    ["https://models.example/v1", 0],
    ["http://10.0.0.7:8000/v1", 1],
    ["http://[fd12::7]:8000/v1", 1],
    ["http://ollama:11434/v1", 1],
  ])("warn when the calls can be read on the way: %s", (baseUrl, warnings) => {
    const logger = createLogKeeper();
    createTestModel(baseUrl, {
      logger,
      endpoint: { name: "local", baseUrl, apiKeyPlace: "models.local.api_key" },
    });
    expect(logger.lines.map((line) => line.level)).toEqual(Array(warnings).fill("warn"));
  });
});
