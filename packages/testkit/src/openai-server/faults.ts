/** What can be made to go wrong with one answer. */
import type { ServerResponse } from "node:http";
import { type FrameOptions, type ServerAnswer, toFrames, toWhole } from "./answer-frames.ts";

export type Fault =
  /** An error answer. `body` as text goes out as it is. */
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string | object;
    }
  /** The connection is reset: before any byte of the answer, or after so many frames of it. */
  | { readonly kind: "cut"; readonly afterFrames?: number }
  /** Nothing more comes and the connection stays open: before the headers, or after so many frames. */
  | { readonly kind: "hang"; readonly afterFrames?: number }
  /** The stream ends properly, but without `finish_reason` and `[DONE]`. */
  | { readonly kind: "no_end"; readonly afterFrames: number }
  /** A chunk that is not JSON. */
  | { readonly kind: "badjson" }
  /** The arguments of every tool call lack their end. */
  | { readonly kind: "badargs" }
  /** A pause before every frame. */
  | { readonly kind: "slow"; readonly frameDelayMs: number }
  /** The stream leaves in pieces of so many bytes, cutting through lines and characters. */
  | { readonly kind: "split"; readonly bytes: number }
  /** `stream: true` is ignored: the answer is one JSON body. */
  | { readonly kind: "whole" }
  /** Any bytes at all. */
  | {
      readonly kind: "raw";
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly chunks: Iterable<string | Uint8Array>;
      /** Leaves the answer open after the last chunk. */
      readonly keepOpen?: boolean;
    };

/** Short names for the usual faults. */
export const NAMED_FAULTS = {
  "429": {
    kind: "status",
    status: 429,
    headers: { "retry-after": "1" },
    body: {
      error: {
        message: "Rate limit reached for requests",
        type: "requests",
        param: null,
        code: "rate_limit_exceeded",
      },
    },
  },
  "500": {
    kind: "status",
    status: 500,
    body: {
      error: {
        message: "The server had an error while processing your request. Sorry about that!",
        type: "server_error",
        param: null,
        code: null,
      },
    },
  },
  cut: { kind: "cut", afterFrames: 2 },
  hang: { kind: "hang" },
  badjson: { kind: "badjson" },
  badargs: { kind: "badargs" },
  slow: { kind: "slow", frameDelayMs: 1 },
  split: { kind: "split", bytes: 7 },
} as const satisfies Record<string, Fault>;

export type FaultName = keyof typeof NAMED_FAULTS;

/** Sends the answer, spoilt by the fault if there is one. */
export async function sendAnswer(
  response: ServerResponse,
  answer: ServerAnswer,
  options: FrameOptions & { readonly stream: boolean },
  fault: Fault | undefined,
): Promise<void> {
  const said = fault?.kind === "badargs" ? withoutEndOfArguments(answer) : answer;
  if (fault?.kind === "status") return sendError(response, fault.status, fault.body ?? "", fault.headers);
  if (fault?.kind === "raw") return sendRaw(response, fault);
  if (fault?.kind === "hang" && fault.afterFrames === undefined) return;
  if (fault?.kind === "cut" && fault.afterFrames === undefined) return void response.socket?.resetAndDestroy();
  if (!options.stream || fault?.kind === "whole") {
    const body = toWhole(said, options);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(fault?.kind === "badjson" ? body.slice(0, body.length / 2) : body);
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" });
  await sendFrames(response, toFrames(said, options), fault);
}

/** An error body, as JSON unless it is text. */
export function sendError(
  response: ServerResponse,
  status: number,
  body: string | object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const isText = typeof body === "string";
  response.writeHead(status, { "content-type": isText ? "text/plain" : "application/json", ...headers });
  response.end(isText ? body : JSON.stringify(body));
}

async function sendFrames(response: ServerResponse, frames: readonly string[], fault: Fault | undefined) {
  switch (fault?.kind) {
    case "badjson":
      response.end('data: {"choices":[\n\ndata: [DONE]\n\n');
      return;
    case "cut":
      response.write(frames.slice(0, fault.afterFrames).join(""), () => response.socket?.resetAndDestroy());
      return;
    case "hang":
      response.write(frames.slice(0, fault.afterFrames).join(""));
      return;
    case "no_end":
      response.end(frames.slice(0, fault.afterFrames).join(""));
      return;
    case "slow":
      for (const each of frames) {
        await new Promise((resolve) => setTimeout(resolve, fault.frameDelayMs));
        response.write(each);
      }
      response.end();
      return;
    case "split":
      for (const piece of piecesOf(Buffer.from(frames.join("")), fault.bytes)) await writeAlone(response, piece);
      response.end();
      return;
    default:
      response.end(frames.join(""));
  }
}

async function sendRaw(response: ServerResponse, fault: Extract<Fault, { kind: "raw" }>): Promise<void> {
  response.writeHead(fault.status ?? 200, fault.headers ?? { "content-type": "text/event-stream" });
  for (const chunk of fault.chunks) {
    if (response.destroyed) return;
    if (!response.write(chunk)) await drained(response);
  }
  if (fault.keepOpen !== true) response.end();
}

/** Resolves when the response can take more, or is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.on("drain", done);
    response.on("close", done);
  });
}

/** Writes one piece and lets it leave before the next. */
async function writeAlone(response: ServerResponse, piece: Uint8Array): Promise<void> {
  if (response.destroyed) return;
  await new Promise<void>((resolve) => {
    response.write(piece, () => resolve());
  });
  await new Promise<void>((resolve) => setImmediate(resolve));
}

function* piecesOf(bytes: Uint8Array, length: number): Generator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += length) yield bytes.subarray(start, start + length);
}

function withoutEndOfArguments(answer: ServerAnswer): ServerAnswer {
  return {
    ...answer,
    toolCalls: answer.toolCalls?.map((call) => {
      const text = typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);
      return { ...call, arguments: text.slice(0, -1) };
    }),
  };
}
