/** The CLI's side of a running mesh's HTTP API. */
import { createParser } from "eventsource-parser";
import type { CliContext } from "./context.ts";
import { EXIT } from "./context.ts";
import { CommandFailure } from "./failure.ts";

export interface ApiOptions {
  readonly url?: string | undefined;
  readonly key?: string | undefined;
}

/** A frame of an event stream. */
export interface StreamFrame {
  readonly id?: number | undefined;
  readonly type: string;
  readonly payload: Record<string, unknown>;
  readonly ts: number;
}

export interface ApiClient {
  readonly url: string;
  get<Body>(path: string): Promise<Body>;
  post<Body>(path: string, body?: unknown): Promise<Body>;
  delete(path: string): Promise<void>;
  /** Frames of a stream until it ends, or `signal` is aborted. */
  stream(request: { path: string; body?: unknown; signal?: AbortSignal }): AsyncGenerator<StreamFrame>;
}

const DEFAULT_URL = "http://127.0.0.1:18820";

/** `--url`, else LEAFMESH_URL, else the default port on loopback; `--key`, else LEAFMESH_API_KEY. */
export function createApiClient(options: ApiOptions, context: CliContext): ApiClient {
  const url = (options.url ?? context.env.LEAFMESH_URL ?? DEFAULT_URL).replace(/\/+$/, "");
  if (!URL.canParse(url)) {
    throw new CommandFailure(`--url ${url} is not an address.`, {
      exitCode: EXIT.usage,
      hint: `Give it with its scheme, such as ${DEFAULT_URL}.`,
    });
  }
  const key = options.key ?? context.env.LEAFMESH_API_KEY;

  const send = async (method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> => {
    let response: Response;
    try {
      response = await fetch(url + path, {
        method,
        redirect: "error",
        signal: signal ? AbortSignal.any([signal, context.signal]) : context.signal,
        headers: {
          ...(key ? { "x-api-key": key } : {}),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    } catch (cause) {
      if (context.signal.aborted || signal?.aborted) throw cause;
      throw new CommandFailure(`There is no mesh at ${url}.`, {
        hint: "Start one with `leafmesh run`, or name another with --url.",
        cause,
      });
    }
    if (response.ok) return response;
    throw await refusal(response, key !== undefined);
  };

  return {
    url,
    async get<Body>(path: string) {
      return (await (await send("GET", path)).json()) as Body;
    },
    async post<Body>(path: string, body?: unknown) {
      return (await (await send("POST", path, body ?? {})).json()) as Body;
    },
    async delete(path) {
      await send("DELETE", path);
    },
    async *stream({ path, body, signal }) {
      const response = await send(body === undefined ? "GET" : "POST", path, body, signal);
      if (!response.body) return;
      yield* readFrames(response.body);
    },
  };
}

async function* readFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamFrame> {
  const ready: StreamFrame[] = [];
  const parser = createParser({
    onEvent(event) {
      const frame = JSON.parse(event.data) as Omit<StreamFrame, "id">;
      ready.push({ ...frame, ...(event.id === undefined ? {} : { id: Number(event.id) }) });
    },
  });
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield* ready.splice(0);
  }
}

async function refusal(response: Response, sentKey: boolean): Promise<CommandFailure> {
  const text = await response.text();
  let message = `The mesh answered ${response.status}.`;
  try {
    const parsed = JSON.parse(text) as { error?: { message?: string } };
    if (parsed.error?.message) message = parsed.error.message;
  } catch {
    // Not the mesh's own error body: the status has to do.
  }
  if (response.status !== 401) return new CommandFailure(message);
  return new CommandFailure(sentKey ? "The mesh does not know this API key." : "The mesh wants an API key.", {
    hint: "Give it with --key, or in LEAFMESH_API_KEY.",
  });
}
