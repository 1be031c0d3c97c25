/**
 * A loopback server that speaks OpenAI chat completions and, in strict mode (the default), refuses what the real API
 * refuses. For tests and measurements: no think time, faults on demand, every request kept.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { ServerAnswer } from "./answer-frames.ts";
import { type ChatRequest, parseChatRequest } from "./chat-request.ts";
import { type Fault, type FaultName, NAMED_FAULTS, sendAnswer, sendError } from "./faults.ts";
import { refuse } from "./refuse.ts";

/** Decides what the model says. `turn` is the place of this call in its conversation, from 1. */
export type ServerHandler = (request: ChatRequest, place: { turn: number }) => ServerAnswer | Promise<ServerAnswer>;

export interface OpenAIServerOptions {
  /**
   * Answers in order within a conversation: the n-th answers a request that holds n - 1 assistant messages, so
   * conversations at the same time do not mix and a repeated request gets the same answer. The last one stays.
   */
  readonly script?: readonly ServerAnswer[] | undefined;
  /** Instead of `script`. Neither: the first tool is called once with `{}`, then comes a fixed text. */
  readonly handler?: ServerHandler | undefined;
  /** Spoil the next answers, one fault each. */
  readonly faults?: readonly (Fault | FaultName)[] | undefined;
  /** Whether histories that a real provider refuses get a 400. */
  readonly strict?: boolean | undefined;
  /** When given, any other `Authorization: Bearer` gets a 401. */
  readonly apiKey?: string | undefined;
  /** When given, any other model gets a 404. */
  readonly models?: readonly string[] | undefined;
  /** Names of request fields that get a 400, as from a server that does not know them. */
  readonly refusedFields?: readonly string[] | undefined;
  /** Largest number of requests kept; the oldest go first. */
  readonly keepRequests?: number | undefined;
  readonly port?: number | undefined;
}

export interface ReceivedRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Body as it came. */
  readonly text: string;
  /** Body as it was read; `undefined` when it is not a chat request. */
  readonly body: ChatRequest | undefined;
  /** Resolves when the exchange is over: was the answer finished, or did the connection close first? */
  readonly over: Promise<"answered" | "closed">;
}

export interface OpenAIServer {
  /** `http://127.0.0.1:PORT/v1` */
  readonly baseUrl: string;
  readonly requests: readonly ReceivedRequest[];
  /** Connections that were accepted since the start. */
  readonly connections: number;
  /** Spoils the next `count` answers, after those that already wait to be spoilt. */
  fail(fault: Fault | FaultName, count?: number): void;
  /** Resolves with the n-th request (from 1) as soon as it is there. */
  received(count: number): Promise<ReceivedRequest>;
  close(): Promise<void>;
}

const MAX_BODY_BYTES = 64 * 1024 * 1024;
export const FIXED_TEXT = "Your battery is at 71 percent and healthy, so there is nothing to worry about today.";

/** Starts the server on 127.0.0.1; resolves once it listens. */
export async function startOpenAIServer(options: OpenAIServerOptions = {}): Promise<OpenAIServer> {
  const faults: Fault[] = (options.faults ?? []).map(toFault);
  const requests: ReceivedRequest[] = [];
  const waiting = new Set<() => void>();
  const handler = options.handler ?? scriptHandler(options.script);
  let serial = 0;
  let total = 0;
  let connections = 0;

  const keep = (request: ReceivedRequest): void => {
    total += 1;
    requests.push(request);
    if (requests.length > (options.keepRequests ?? 1000)) requests.shift();
    for (const check of [...waiting]) check();
  };

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await readBody(incoming);
    const parsed = parseChatRequest(text);
    keep({
      path: incoming.url ?? "",
      headers: incoming.headers,
      text,
      body: parsed.request,
      over: endOf(response),
    });
    const refused = refuse(
      { method: incoming.method, path: incoming.url, authorization: incoming.headers.authorization },
      parsed,
      options,
    );
    if (refused) return sendError(response, refused.status, { error: refused.error });
    if (!parsed.request) return;
    serial += 1;
    const turn = parsed.request.messages.filter((message) => message.role === "assistant").length + 1;
    const said = await handler(parsed.request, { turn });
    await sendAnswer(
      response,
      said,
      {
        model: parsed.request.model,
        serial,
        stream: parsed.request.stream === true,
        includeUsage: parsed.request.stream_options?.include_usage === true,
      },
      faults.shift(),
    );
  };

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((cause: unknown) => {
      if (response.headersSent) response.destroy();
      else sendError(response, 500, { error: { message: String(cause), type: "server_error" } });
    });
  });
  server.keepAliveTimeout = 60_000;
  server.on("connection", (socket) => {
    connections += 1;
    socket.setNoDelay(true);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ port: options.port ?? 0, host: "127.0.0.1", backlog: 4096 }, resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no TCP address");

  return {
    baseUrl: `http://127.0.0.1:${address.port}/v1`,
    requests,
    get connections() {
      return connections;
    },
    fail(fault, count = 1) {
      for (let added = 0; added < count; added++) faults.push(toFault(fault));
    },
    received(count) {
      return new Promise((resolve) => {
        const check = (): void => {
          const request = requests[count - 1 - (total - requests.length)];
          if (!request) return;
          waiting.delete(check);
          resolve(request);
        };
        waiting.add(check);
        check();
      });
    },
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

function scriptHandler(script: readonly ServerAnswer[] | undefined): ServerHandler {
  if (script === undefined) {
    return (request) => {
      const tool = request.tools?.[0]?.function.name;
      return tool !== undefined && request.messages.at(-1)?.role !== "tool"
        ? { toolCalls: [{ name: tool, arguments: {} }] }
        : { content: FIXED_TEXT };
    };
  }
  return (_request, { turn }) => {
    const answer = script[Math.min(turn, script.length) - 1];
    if (!answer) throw new Error("the script of this server is empty");
    return answer;
  };
}

function toFault(fault: Fault | FaultName): Fault {
  return typeof fault === "string" ? NAMED_FAULTS[fault] : fault;
}

function endOf(response: ServerResponse): Promise<"answered" | "closed"> {
  return new Promise((resolve) => {
    response.once("close", () => resolve(response.writableFinished ? "answered" : "closed"));
  });
}

async function readBody(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > MAX_BODY_BYTES) throw new Error(`the request is larger than ${MAX_BODY_BYTES} bytes`);
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString("utf8");
}
