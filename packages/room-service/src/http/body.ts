import type { IncomingMessage } from "node:http";
import type { Clock } from "@leafmesh/protocol";
import { failure, type Reply } from "./reply.ts";

/** Bodies of the protocol are a handful of short fields. */
export const MAX_BODY_BYTES = 16 * 1024;
const BODY_TIMEOUT_MS = 10_000;

export type Body = { readonly ok: true; readonly json: unknown } | { readonly ok: false; readonly reply: Reply };

/** The request's JSON; no body at all counts as `{}`. Reads no more than the limit and waits no longer than the timeout. */
export async function readJson(request: IncomingMessage, clock: Clock): Promise<Body> {
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > MAX_BODY_BYTES) return tooLarge();
  const chunks: Buffer[] = [];
  let bytes = 0;
  const timer = clock.schedule(BODY_TIMEOUT_MS, () => request.destroy(new Error("the body did not arrive in time")));
  try {
    for await (const chunk of request) {
      const part: Buffer = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
      bytes += part.byteLength;
      if (bytes > MAX_BODY_BYTES) return tooLarge();
      chunks.push(part);
    }
  } finally {
    timer.cancel();
  }
  if (bytes === 0) return { ok: true, json: {} };
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
    return { ok: true, json: JSON.parse(text) };
  } catch {
    return { ok: false, reply: failure("invalid_request", "the body is not JSON in UTF-8", { status: 400 }) };
  }
}

function tooLarge(): Body {
  const reply = failure("too_large", `a body may have ${MAX_BODY_BYTES} bytes`, { headers: { connection: "close" } });
  return { ok: false, reply };
}
