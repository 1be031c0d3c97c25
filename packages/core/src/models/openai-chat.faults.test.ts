import { createServer, type Server as NetServer } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { Secret } from "@leafmesh/protocol";
import {
  createFakeClock,
  type Fault,
  type FaultName,
  type OpenAIServerOptions,
  startOpenAIServer,
} from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { answerWithRetries } from "./retry.ts";
import { ask, batteryTool, chatRequest, createTestModel } from "./test-support.ts";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

const shortTimeouts = { connectMs: 300, headersMs: 200, idleMs: 200 };

async function setUp(options: OpenAIServerOptions = {}) {
  const server = await startOpenAIServer(options);
  const model = createTestModel(server.baseUrl, { timeouts: shortTimeouts });
  open.push(server, model);
  return { server, model };
}

const where = (baseUrl: string): string => `models.local (${baseUrl})`;

describe("an error answer", () => {
  const body = (message: string, more: object = {}) => ({
    error: { message, type: "x", param: null, code: null, ...more },
  });

  it.each<[number, string | object, { kind: string; says: string }]>([
    [400, body("Bad things."), { kind: "bad_request", says: 'answered 400: "Bad things.".' }],
    [401, body("No."), { kind: "bad_credential", says: 'answered 401: "No.". Check models.local.api_key.' }],
    [403, body("Not here."), { kind: "bad_credential", says: "Check what the key in models.local.api_key may use." }],
    [402, body("Pay."), { kind: "bad_request", says: "no credit left" }],
    [404, body("No model."), { kind: "bad_request", says: 'Is "gpt-4o-mini" a model of this endpoint' }],
    [408, "", { kind: "transient", says: "answered 408." }],
    [409, "", { kind: "transient", says: "answered 409." }],
    [413, "", { kind: "bad_request", says: "answered 413." }],
    [422, { detail: "Unprocessable." }, { kind: "bad_request", says: '"Unprocessable."' }],
    [429, body("Slow down."), { kind: "transient", says: '"Slow down."' }],
    [429, body("No money.", { code: "insufficient_quota" }), { kind: "bad_request", says: "no credit left" }],
    [500, body("Boom."), { kind: "transient", says: '"Boom."' }],
    [502, "<html><body>Bad gateway</body></html>", { kind: "transient", says: "answered 502." }],
    [503, "Overloaded", { kind: "transient", says: '"Overloaded"' }],
    [529, { error: "busy" }, { kind: "transient", says: '"busy"' }],
  ])("%i is told apart and explained: %j", async (status, answer, { kind, says }) => {
    const { server, model } = await setUp({ faults: [{ kind: "status", status, body: answer }] });
    const error = await ask(model).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: "ModelError", kind, status });
    expect(error).toHaveProperty("message", expect.stringContaining(`${where(server.baseUrl)} answered ${status}`));
    expect(error).toHaveProperty("message", expect.stringContaining(says));
  });

  it("does not follow a redirect, but says where it leads", async () => {
    const { server, model } = await setUp({
      faults: [{ kind: "status", status: 308, headers: { location: "https://b.example/v1/chat/completions" } }],
    });
    await expect(ask(model)).rejects.toMatchObject({
      kind: "bad_request",
      message: expect.stringContaining("perhaps https://b.example/v1."),
    });
    expect(server.requests).toHaveLength(1);
  });

  it("never repeats a key, as it is or masked, nor a secret header", async () => {
    const server = await startOpenAIServer();
    const model = createTestModel(server.baseUrl, {
      endpoint: {
        name: "local",
        baseUrl: server.baseUrl,
        apiKey: new Secret("my-own-odd-key"),
        apiKeyPlace: "models.local.api_key",
        headers: { "api-key": "azure-secret-value" },
      },
    });
    open.push(server, model);
    const message = "Keys my-own-odd-key, azure-secret-value, sk-abc****wxyz, Bearer abc.def and sk-proj-AbCdEf012345";
    server.fail({ kind: "status", status: 401, body: { error: { message } } });
    expect(await ask(model).catch(String)).toBe(
      `ModelError: ${where(server.baseUrl)} answered 401: "Keys [redacted], [redacted], [redacted], [redacted] and [redacted]". Check models.local.api_key.`,
    );
  });

  it("is quoted in one short line", async () => {
    const { model } = await setUp({
      faults: [{ kind: "status", status: 400, body: `a\r\n\u001b[31mb\u202e ${"c".repeat(5000)}` }],
    });
    const message = await ask(model).catch(String);
    expect(message).toContain('"a [31mb ccc');
    expect(message).toContain('c…".');
    expect(String(message).length).toBeLessThan(450);
  });

  it("is read only so far", async () => {
    const endless = function* () {
      for (;;) yield "x".repeat(16_384);
    };
    const { server, model } = await setUp({ faults: [{ kind: "raw", status: 500, chunks: endless() }] });
    await expect(ask(model)).rejects.toMatchObject({ kind: "transient", status: 500 });
    expect(await server.requests[0]?.over).toBe("closed");
  });

  it.each([
    [{ "retry-after": "2" }, 2000],
    [{ "retry-after": "1.5" }, 1500],
    [{ "retry-after-ms": "250", "retry-after": "2" }, 250],
    [{ "retry-after": "999999999" }, 3_600_000],
    [{ "retry-after": "-5" }, undefined],
    [{ "retry-after": "soon" }, undefined],
    [{}, undefined],
  ])("carries the time to come back: %j", async (headers, retryAfterMs) => {
    const { model } = await setUp({ faults: [{ kind: "status", status: 429, headers: { ...headers } }] });
    await expect(ask(model)).rejects.toMatchObject({ status: 429, retryAfterMs });
  });
});

describe("an answer that breaks", () => {
  it.each<[string, Fault | FaultName, { kind: string; says: string }]>([
    ["reset before it began", { kind: "cut" }, { kind: "transient", says: "closed the connection before it answered" }],
    ["reset in the middle", "cut", { kind: "transient", says: "ended its answer in the middle" }],
    ["ended without an end", { kind: "no_end", afterFrames: 4 }, { kind: "transient", says: "in the middle" }],
    ["ended before it began", { kind: "no_end", afterFrames: 0 }, { kind: "transient", says: "in the middle" }],
    ["not begun", "hang", { kind: "transient", says: "did not begin to answer in time" }],
    ["silent", { kind: "hang", afterFrames: 3 }, { kind: "transient", says: "fell silent in the middle" }],
    ["not JSON", "badjson", { kind: "bad_answer", says: "sent a chunk that is not JSON" }],
    [
      "a web page",
      { kind: "raw", headers: { "content-type": "text/html" }, chunks: ["<!doctype html><title>Hi</title>"] },
      { kind: "bad_answer", says: "does base_url end in its /v1?" },
    ],
    [
      "an error in the stream",
      { kind: "raw", chunks: ['data: {"error":{"message":"Out of memory","code":500}}\n\n'] },
      { kind: "transient", says: 'reported an error instead of an answer: "Out of memory".' },
    ],
    [
      "a refusal in the stream",
      { kind: "raw", chunks: ['data: {"error":{"message":"Too long","code":400}}\n\n'] },
      { kind: "bad_request", says: '"Too long"' },
    ],
    [
      "an error with status 200",
      { kind: "raw", headers: { "content-type": "application/json" }, chunks: ['{"error":"model is loading"}'] },
      { kind: "transient", says: '"model is loading"' },
    ],
  ])("%s", async (_what, fault, { kind, says }) => {
    const { server, model } = await setUp({ faults: [fault] });
    const error = await ask(model).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: "ModelError", kind });
    expect(error).toHaveProperty("message", expect.stringContaining(where(server.baseUrl)));
    expect(error).toHaveProperty("message", expect.stringContaining(says));
    expect(await ask(model)).toMatchObject({ finishReason: "stop" });
  });

  it("leaves unfinished arguments as the model wrote them", async () => {
    const { model } = await setUp({
      script: [{ toolCalls: [{ name: "read_battery", arguments: { device: "phone" } }] }],
      faults: ["badargs"],
    });
    expect(await ask(model, chatRequest({ tools: [batteryTool] }))).toMatchObject({
      toolCalls: [{ arguments: '{"device":"phone"' }],
    });
  });

  it("waits for a slow answer as long as it moves", async () => {
    const { model } = await setUp({ script: [{ content: "a b c d e" }], faults: ["slow"] });
    expect(await ask(model)).toMatchObject({ content: "a b c d e" });
  });

  it("is asked for again, and only the good answer counts", async () => {
    const { server, model } = await setUp({
      script: [{ content: "one two three" }],
      faults: ["429", "500", { kind: "cut", afterFrames: 3 }],
    });
    const clock = createFakeClock();
    let text = "";
    const answering = answerWithRetries(model, chatRequest(), {
      clock,
      deadlineAtMs: clock.nowMs() + 60_000,
      signal: new AbortController().signal,
      random: () => 0.5,
      onText: (more) => {
        text += more;
      },
      onRetry: () => {
        text = "";
      },
    });
    for (let attempt = 1; attempt <= 3; attempt++) {
      await (await server.received(attempt)).over;
      while (!(await clock.advanceToNext())) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await answering).toMatchObject({ content: "one two three" });
    expect(text).toBe("one two three");
    expect(server.requests).toHaveLength(4);
  });
});

describe("an abort", () => {
  it("before the call sends nothing", async () => {
    const { server, model } = await setUp();
    const aborted = model.answer(chatRequest(), { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ kind: "aborted" });
    expect(server.connections).toBe(0);
  });

  it.each<[string, Fault | FaultName]>([
    ["before the answer", "hang"],
    ["in the middle of the answer", { kind: "hang", afterFrames: 3 }],
  ])("%s closes the socket", async (_when, fault) => {
    const { server, model } = await setUp({ faults: [fault] });
    const controller = new AbortController();
    const answering = model.answer(chatRequest(), { signal: controller.signal });
    const failed = expect(answering).rejects.toMatchObject({
      kind: "aborted",
      message: expect.stringContaining("aborted"),
    });
    const received = await server.received(1);
    controller.abort();
    await failed;
    expect(await received.over).toBe("closed");
    expect(await ask(model)).toMatchObject({ finishReason: "stop" });
  });

  it("is what closing the model is to a call under way", async () => {
    const { server, model } = await setUp({ faults: ["hang"] });
    const failed = expect(ask(model)).rejects.toMatchObject({ kind: "aborted" });
    await server.received(1);
    await model.close();
    await failed;
    await expect(ask(model)).rejects.toMatchObject({ name: "ModelError" });
  });

  it("does not swallow a bug of the one who listens", async () => {
    const { server, model } = await setUp({ script: [{ content: "hello" }] });
    const answering = ask(model, chatRequest(), () => {
      throw new TypeError("my own bug");
    });
    await expect(answering).rejects.toThrow(new TypeError("my own bug"));
    expect(server.requests).toHaveLength(1);
  });
});

describe("a server that is not there", () => {
  async function listen(server: NetServer): Promise<number> {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    open.push({ close: () => new Promise((resolve) => server.close(() => resolve())) });
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no TCP address");
    return address.port;
  }

  function modelAt(baseUrl: string) {
    const model = createTestModel(baseUrl, { timeouts: shortTimeouts });
    open.push(model);
    return model;
  }

  it("refuses the connection", async () => {
    const server = await startOpenAIServer();
    await server.close();
    await expect(ask(modelAt(server.baseUrl))).rejects.toMatchObject({
      kind: "transient",
      message: `${where(server.baseUrl)} refused the connection. Is the server running?`,
    });
  });

  it("has no address", async () => {
    await expect(ask(modelAt("http://no-such-host.invalid/v1"))).rejects.toMatchObject({
      kind: "transient",
      message: expect.stringMatching(/^models\.local \(http:\/\/no-such-host\.invalid\/v1\) has a host name that/),
    });
  });

  it("speaks no TLS", async () => {
    const server = await startOpenAIServer();
    open.push(server);
    await expect(ask(modelAt(server.baseUrl.replace("http:", "https:")))).rejects.toMatchObject({
      kind: "bad_request",
      message: expect.stringContaining("does not speak TLS. Does base_url need http:// instead of https://?"),
    });
  });

  it("shows a certificate that nobody vouches for", async () => {
    const port = await listen(
      createTlsServer({ cert: CERTIFICATE, key: CERTIFICATE_KEY }, (socket) => socket.destroy()),
    );
    await expect(ask(modelAt(`https://127.0.0.1:${port}/v1`))).rejects.toMatchObject({
      kind: "bad_request",
      message: expect.stringContaining("NODE_EXTRA_CA_CERTS"),
    });
  });

  it("speaks something other than HTTP", async () => {
    const port = await listen(
      createServer(
        (socket) =>
          void socket
            .on("error", () => {})
            .resume()
            .end("SSH-2.0-OpenSSH_9.6\r\n"),
      ),
    );
    await expect(ask(modelAt(`http://127.0.0.1:${port}/v1`))).rejects.toMatchObject({
      kind: "bad_answer",
      message: expect.stringContaining("sent something that is not HTTP"),
    });
  });

  it("breaks the connection after the answer was complete, which is no matter", async () => {
    const chunk = JSON.stringify({ choices: [{ index: 0, delta: { content: "hi" }, finish_reason: "stop" }] });
    const body = `data: ${chunk}\n\ndata: [DONE]\n\n`;
    const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    const port = await listen(
      createServer((socket) => {
        socket.on("error", () => {});
        socket.once("data", () => {
          socket.write(`${head}${body.length.toString(16)}\r\n${body}\r\n`, () => socket.resetAndDestroy());
        });
      }),
    );
    expect(await ask(modelAt(`http://127.0.0.1:${port}/v1`))).toMatchObject({ content: "hi" });
  });

  it("closes the connection without a word", async () => {
    const port = await listen(createServer((socket) => void socket.once("data", () => socket.end())));
    await expect(ask(modelAt(`http://127.0.0.1:${port}/v1`))).rejects.toMatchObject({
      kind: "transient",
      message: expect.stringContaining("closed the connection before it answered"),
    });
  });
});

/** Self-signed, for localhost, valid for a hundred years; used by this test alone. */
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUc1cWXlj6pLWWFyGWomlTI48EVJMwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTIwMTAzMTExMloYDzIxMjYxMTA3
MDMxMTEyWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR6DakJ1zGvJza4UPBl+H/wQFW39WA43L+uYKbexGmVp8bl056ZUKtv
+dKL0/ugiH2vE7J/PD/BF2oSTWHMaZZbo1MwUTAdBgNVHQ4EFgQU+p2HpRUWSw8+
jJga3VKKms3Jx04wHwYDVR0jBBgwFoAU+p2HpRUWSw8+jJga3VKKms3Jx04wDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBarSbQisH8NjM4PPPq7aQk
VNwwtx40SW3iIGy3FW2+KgIgCyBjZlN0WL5t9tDUsNvXQ6jj3iL/NxsOW03Ovb0y
Jkk=
-----END CERTIFICATE-----
`;
const CERTIFICATE_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgxhE2h3iIt9BdCrsr
u1x/1JF5KzdF27ufP5k5joFPS1ChRANCAAR6DakJ1zGvJza4UPBl+H/wQFW39WA4
3L+uYKbexGmVp8bl056ZUKtv+dKL0/ugiH2vE7J/PD/BF2oSTWHMaZZb
-----END PRIVATE KEY-----
`;
