import OpenAI from "openai";
import { afterEach, describe, expect, it } from "vitest";
import { FIXED_TEXT, type OpenAIServer, type OpenAIServerOptions, startOpenAIServer } from "./server.ts";

const open: OpenAIServer[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

async function setUp(options: OpenAIServerOptions = {}) {
  const server = await startOpenAIServer(options);
  open.push(server);
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: options.apiKey ?? "k", maxRetries: 0 });
  return { server, client };
}

const read: OpenAI.ChatCompletionTool = {
  type: "function",
  function: { name: "read_battery", parameters: { type: "object", properties: {} } },
};
const question: OpenAI.ChatCompletionMessageParam = { role: "user", content: "Is my battery OK?" };

describe("the official client", () => {
  it("gets a stream", async () => {
    const { client } = await setUp();
    const stream = client.chat.completions.stream({ model: "m", messages: [question], tools: [read] });
    const first = await stream.finalChatCompletion();
    const call = first.choices[0]?.message.tool_calls?.[0];
    expect(call).toMatchObject({ type: "function", function: { name: "read_battery", arguments: "{}" } });
    const again = client.chat.completions.stream({
      model: "m",
      messages: [
        question,
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: call?.id ?? "", type: "function", function: { name: "read_battery", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: call?.id ?? "", content: "71" },
      ],
      tools: [read],
      stream_options: { include_usage: true },
    });
    const second = await again.finalChatCompletion();
    expect(second.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: FIXED_TEXT } });
    expect(second.usage).toEqual({ prompt_tokens: 60, completion_tokens: 20, total_tokens: 80 });
    expect(second.id).not.toBe(first.id);
  });

  it("gets a whole answer", async () => {
    const { client } = await setUp({ script: [{ content: "Hi.", toolCalls: [{ name: "x", arguments: { a: 1 } }] }] });
    const answer = await client.chat.completions.create({ model: "m", messages: [question] });
    expect(answer.choices[0]?.message).toMatchObject({
      content: "Hi.",
      tool_calls: [{ type: "function", function: { name: "x", arguments: '{"a":1}' } }],
    });
  });

  it("gets the errors it knows", async () => {
    const { server, client } = await setUp({ faults: ["429", "500"], models: ["m"], apiKey: "right" });
    const ask = (model = "m", messages: OpenAI.ChatCompletionMessageParam[] = [question]) =>
      client.chat.completions.create({ model, messages });
    await expect(ask()).rejects.toThrow(OpenAI.RateLimitError);
    await expect(ask()).rejects.toThrow(OpenAI.InternalServerError);
    await expect(ask("other")).rejects.toThrow(OpenAI.NotFoundError);
    await expect(ask("m", [{ role: "tool", tool_call_id: "a", content: "1" }])).rejects.toThrow(
      expect.objectContaining({
        constructor: OpenAI.BadRequestError,
        status: 400,
        param: "messages.[0].role",
        type: "invalid_request_error",
      }),
    );
    const wrong = new OpenAI({ baseURL: server.baseUrl, apiKey: "wrong", maxRetries: 0 });
    await expect(wrong.models.list()).rejects.toThrow(OpenAI.NotFoundError);
    await expect(wrong.chat.completions.create({ model: "m", messages: [question] })).rejects.toThrow(
      OpenAI.AuthenticationError,
    );
  });

  it("is told that a stream was cut", async () => {
    const { client } = await setUp({ faults: ["cut"] });
    const stream = await client.chat.completions.create({ model: "m", messages: [question], stream: true });
    const chunks: unknown[] = [];
    await expect(
      (async () => {
        for await (const chunk of stream) chunks.push(chunk);
      })(),
    ).rejects.toThrow();
    expect(chunks.length).toBeLessThanOrEqual(2);
  });
});

describe("the server", () => {
  it("answers by the place in the conversation, so that a repeated request gets the same", async () => {
    const { client } = await setUp({ script: [{ content: "one" }, { content: "two" }] });
    const said = async (answers: number) => {
      const talk: OpenAI.ChatCompletionMessageParam[] = Array.from({ length: answers }, () => [
        question,
        { role: "assistant" as const, content: "x" },
      ]).flat();
      const answer = await client.chat.completions.create({ model: "m", messages: [...talk, question] });
      return answer.choices[0]?.message.content;
    };
    expect([await said(0), await said(0), await said(1), await said(2)]).toEqual(["one", "one", "two", "two"]);
  });

  it("asks its handler", async () => {
    const { client } = await setUp({
      handler: async (request, { turn }) => ({ content: `${request.model} ${turn} ${request.messages.length}` }),
    });
    const answer = await client.chat.completions.create({
      model: "m",
      messages: [question, { role: "assistant", content: "x" }, question],
    });
    expect(answer.choices[0]?.message.content).toBe("m 2 3");
  });

  it("keeps the requests, and no more than told", async () => {
    const { server, client } = await setUp({ keepRequests: 2 });
    const third = server.received(3);
    for (const model of ["a", "b", "c"]) await client.chat.completions.create({ model, messages: [question] });
    expect(server.requests.map((request) => request.body?.model)).toEqual(["b", "c"]);
    expect((await third).body?.model).toBe("c");
    expect(JSON.parse((await third).text)).toEqual({ model: "c", messages: [question] });
    expect(await (await third).over).toBe("answered");
  });

  it("refuses the fields it is told not to know", async () => {
    const { client } = await setUp({ refusedFields: ["max_tokens"] });
    await expect(
      client.chat.completions.create({ model: "m", messages: [question], max_tokens: 5 }),
    ).rejects.toMatchObject({ status: 400, param: "max_tokens", code: "unsupported_parameter" });
  });

  it("takes any history when it is not strict", async () => {
    const { client } = await setUp({ strict: false });
    const answer = await client.chat.completions.create({
      model: "m",
      messages: [{ role: "tool", tool_call_id: "a", content: "1" }],
    });
    expect(answer.choices[0]?.message.content).toBe(FIXED_TEXT);
  });

  it("spoils answers in the order it was told", async () => {
    const { server } = await setUp({ faults: [{ kind: "status", status: 503, body: "busy" }] });
    server.fail({ kind: "raw", status: 200, headers: { "x-odd": "1" }, chunks: ["a", "b"] });
    server.fail({ kind: "whole" }, 2);
    const post = () =>
      fetch(`${server.baseUrl}/chat/completions`, {
        method: "POST",
        body: JSON.stringify({ model: "m", messages: [question], stream: true }),
      });
    const busy = await post();
    expect([busy.status, await busy.text()]).toEqual([503, "busy"]);
    const raw = await post();
    expect([raw.headers.get("x-odd"), await raw.text()]).toEqual(["1", "ab"]);
    for (let whole = 0; whole < 2; whole++) expect(await (await post()).json()).toHaveProperty("choices");
    expect(await (await post()).text()).toMatch(/^data: .*\n\ndata: \[DONE\]\n\n$/s);
  });

  it("closes while an answer hangs", async () => {
    const { server } = await setUp({ faults: ["hang"] });
    const hanging = fetch(`${server.baseUrl}/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "m", messages: [question] }),
    });
    const failed = expect(hanging).rejects.toThrow();
    const received = await server.received(1);
    await server.close();
    await failed;
    expect(await received.over).toBe("closed");
  });
});
