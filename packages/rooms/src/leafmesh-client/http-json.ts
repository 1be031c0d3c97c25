/** One JSON request over `node:http`: no redirects, a bound on the answer, an end in time. */

import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from "node:http";
// As a whole, so that the bundle loads TLS with the first client.
import https from "node:https";
import { operatorLookup } from "@leafmesh/guarded-fetch";
import { RoomError } from "../contract.ts";

/** Answers of the protocol are a few hundred bytes. */
const MAX_ANSWER_BYTES = 64 * 1024;

export interface JsonRequest {
  readonly method: "GET" | "POST" | "DELETE";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface JsonAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** `undefined` for an empty body. */
  readonly json: unknown;
}

export interface JsonClient {
  /** Throws {@link RoomError}: `unavailable` when there was no answer, `mismatch` when it was no JSON or too large. */
  send(request: JsonRequest, signal: AbortSignal): Promise<JsonAnswer>;
  /** Ends the connections that are kept for the next request. */
  close(): void;
}

export function createJsonClient(): JsonClient {
  const agents = { http: new HttpAgent({ keepAlive: true }), https: new https.Agent({ keepAlive: true }) };

  const sendOnce = (request: JsonRequest, signal: AbortSignal): Promise<JsonAnswer> =>
    new Promise((resolve, reject) => {
      const url = new URL(request.url);
      const secure = url.protocol === "https:";
      const body = request.body === undefined ? undefined : JSON.stringify(request.body);
      const outgoing = (secure ? https.request : requestHttp)(url, {
        method: request.method,
        agent: secure ? agents.https : agents.http,
        lookup: operatorLookup,
        signal,
        headers: {
          ...request.headers,
          accept: "application/json",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          "content-length": String(Buffer.byteLength(body ?? "")),
        },
      });
      outgoing.on("error", reject);
      outgoing.on("response", (response) => {
        readJson(response).then((json) => {
          resolve({ status: response.statusCode ?? 0, headers: response.headers, json });
        }, reject);
      });
      outgoing.end(body);
    });

  return {
    async send(request, signal) {
      try {
        return await sendOnce(request, signal);
      } catch (error) {
        throw toRoomError(error, signal);
      }
    },
    close() {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

async function readJson(response: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    const part = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
    bytes += part.byteLength;
    if (bytes > MAX_ANSWER_BYTES) {
      response.destroy();
      throw new RoomError("mismatch", `The room service answered with more than ${MAX_ANSWER_BYTES} bytes.`);
    }
    chunks.push(part);
  }
  if (bytes === 0) return undefined;
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    // An error page of a proxy: what matters of it is the status.
    return undefined;
  }
}

function toRoomError(error: unknown, signal: AbortSignal): RoomError {
  if (error instanceof RoomError) return error;
  if (signal.aborted) return new RoomError("unavailable", "The room service did not answer in time.", { cause: error });
  const code = error instanceof Error && "code" in error ? String(error.code) : undefined;
  return new RoomError("unavailable", `The room service cannot be reached${code ? ` (${code})` : ""}.`, {
    code,
    cause: error,
  });
}
