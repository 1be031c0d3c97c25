/** Requests to one mesh: address, key, timeouts, safe repeats, and answers that are checked before anybody sees them. */
import { type Clock, deadline, Secret } from "@leafmesh/protocol";
import type * as z from "zod";
import { LeafMeshError, readRefusal } from "./errors.ts";
import { readText } from "./read-text.ts";
import { retrying } from "./wait.ts";

/** Options that every call takes. */
export interface CallOptions {
  /** Gives the call up; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** How long one try may take, in milliseconds. */
  readonly timeoutMs?: number | undefined;
}

export interface Outgoing extends CallOptions {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly bytes?: Uint8Array<ArrayBuffer> | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Doing it twice is the same as doing it once, so a failure that may pass is tried again. */
  readonly safe: boolean;
}

export interface Transport {
  readonly url: string;
  readonly clock: Clock;
  readonly random: () => number;
  /** The JSON answer as `schema` reads it. Rejects with a {@link LeafMeshError}. */
  call<Schema extends z.ZodType>(request: Outgoing, schema: Schema): Promise<z.output<Schema>>;
  /** A call whose answer has no body. */
  send(request: Outgoing): Promise<void>;
  /** One try, up to the headers of the answer; its body is the caller's, and ends with `signal`. */
  open(request: Outgoing): Promise<Response>;
}

export interface TransportOptions {
  readonly url: string;
  readonly apiKey: string | Secret | undefined;
  readonly fetch: typeof globalThis.fetch;
  readonly clock: Clock;
  readonly random: () => number;
  /** How often what is safe is tried at most. */
  readonly maxTries: number;
}

const CALL_TIMEOUT_MS = 30_000;
/** A mesh that wants to be left alone for longer is the caller's matter. */
const LONGEST_WAIT_MS = 30_000;
const MAX_ANSWER_CHARACTERS = 64 * 1024 * 1024;

export function createTransport({ url, apiKey, fetch, clock, random, maxTries }: TransportOptions): Transport {
  const base = parseBase(url);
  const key = typeof apiKey === "string" ? new Secret(apiKey) : apiKey;

  const exchange = async (request: Outgoing, signal: AbortSignal | undefined): Promise<Response> => {
    const target = new URL(base + request.path);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) target.searchParams.set(name, String(value));
    }
    const body = request.bytes ?? (request.json === undefined ? undefined : JSON.stringify(request.json));
    const response = await fetch(target, {
      method: request.method,
      redirect: "error",
      headers: {
        ...(key ? { "x-api-key": key.reveal() } : {}),
        ...(request.json === undefined ? {} : { "content-type": "application/json" }),
        ...request.headers,
      },
      ...(body === undefined ? {} : { body }),
      ...(signal ? { signal } : {}),
    });
    if (!response.ok) throw await readRefusal(response, clock.nowMs());
    return response;
  };

  /** `work` within the request's time; what the runtime throws becomes a {@link LeafMeshError}. */
  const attempt = async <Value>(request: Outgoing, work: (signal: AbortSignal) => Promise<Value>): Promise<Value> => {
    const timeoutMs = request.timeoutMs ?? CALL_TIMEOUT_MS;
    const time = deadline(clock, timeoutMs, request.signal);
    try {
      return await work(time.signal);
    } catch (cause) {
      if (request.signal?.aborted) throw request.signal.reason;
      if (cause instanceof LeafMeshError) throw cause;
      if (time.signal.aborted) {
        throw new LeafMeshError(`${base} did not answer within ${timeoutMs / 1000} s.`, {
          status: 0,
          code: "timeout",
          cause,
        });
      }
      throw new LeafMeshError(`No answer came from ${base}.`, { status: 0, code: "unreachable", cause });
    } finally {
      time.dispose();
    }
  };

  const withRepeats = <Value>(request: Outgoing, work: () => Promise<Value>): Promise<Value> => {
    if (!request.safe) return work();
    const goOn = ({ tries, waitMs }: { tries: number; waitMs: number }): boolean =>
      tries < maxTries && waitMs <= LONGEST_WAIT_MS;
    return retrying(work, { clock, random, signal: request.signal, goOn });
  };

  return {
    url: base,
    clock,
    random,
    call(request, schema) {
      return withRepeats(request, () =>
        attempt(request, async (signal) => {
          const response = await exchange(request, signal);
          return readAnswer(response, await readText(response, MAX_ANSWER_CHARACTERS), schema);
        }),
      );
    },
    send(request) {
      return withRepeats(request, () =>
        attempt(request, async (signal) => {
          const response = await exchange(request, signal);
          await response.body?.cancel();
        }),
      );
    },
    open(request) {
      return attempt(request, (untilHeaders) => {
        // The time ends with the headers; the body lives for as long as the caller's signal lets it.
        const lost = new AbortController();
        untilHeaders.addEventListener("abort", () => lost.abort(untilHeaders.reason), { once: true });
        return exchange(request, request.signal ? AbortSignal.any([request.signal, lost.signal]) : lost.signal);
      });
    },
  };
}

/** Without a slash at its end. Throws a `TypeError` that names the cure. */
function parseBase(url: string): string {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new TypeError(`url: ${JSON.stringify(url)} is no http(s) address; write for example http://127.0.0.1:18820`);
  }
  return url.replace(/\/+$/, "");
}

function readAnswer<Schema extends z.ZodType>(response: Response, text: string, schema: Schema): z.output<Schema> {
  const bad = (why: string, cause: unknown): LeafMeshError =>
    new LeafMeshError(`The answer of ${response.url || "the mesh"} is ${why}. Is this the address of a mesh?`, {
      status: response.status,
      code: "bad_answer",
      cause,
    });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw bad("not JSON", cause);
  }
  const parsed = schema.safeParse(value, { reportInput: false });
  if (!parsed.success) throw bad("not as documented", parsed.error);
  return parsed.data;
}
