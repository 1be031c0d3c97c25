/**
 * Requests to a push service's own, fixed address: one pool of kept connections a notifier, nothing followed, nothing
 * repeated, and an end to every wait and every answer. What goes wrong on the way is a {@link RingError} without the
 * address, which may hold a push token. Addresses that come from devices go through `@leafmesh/guarded-fetch` instead.
 */
import { AnswerTooLarge, routed } from "@leafmesh/guarded-fetch";
import { type Clock, deadline, type Network } from "@leafmesh/protocol";
import type { Agent, Dispatcher } from "undici";
import { type Closable, RingError } from "../contract.ts";
import { failedRequest, toAnswer, type VendorAnswer } from "./answer.ts";
import { exchange } from "./exchange.ts";

export interface VendorRequest {
  /** The vendor's real address, in every case: a test leads the connection elsewhere with {@link Network}. */
  readonly url: string;
  readonly method?: Dispatcher.HttpMethod | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
  readonly signal: AbortSignal;
  /** From the request to the end of the answer; default 8 s, which leaves the mesh's own attempt (10 s) time to tell. */
  readonly timeoutMs?: number | undefined;
}

export interface VendorClient extends Closable {
  /** Resolves with whatever the vendor answered. Throws {@link RingError} (`transient`) when no whole answer came. */
  request(request: VendorRequest): Promise<VendorAnswer>;
}

export interface VendorClientOptions {
  readonly clock: Clock;
  readonly network?: Network | undefined;
  /** HTTP/2 where the vendor offers it; APNs speaks nothing else. */
  readonly http2?: boolean | undefined;
  /**
   * Whether a ring that may have been taken can be sent again without ringing twice, because it has a collapse key or
   * the app drops it. False for text messages: a failure after the request went out is then not repeated.
   */
  readonly repeatsAreHarmless?: boolean | undefined;
  /** How long a connection that nobody uses is kept; default a minute. */
  readonly keepAliveMs?: number | undefined;
  /** Requests that can be under way at once; more than the default where the vendor holds one until a device has answered. */
  readonly connections?: number | undefined;
}

export const REQUEST_TIMEOUT_MS = 8_000;
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_CONNECTIONS = 16;
/** Long enough for the next ask of a conversation. Vendors that close sooner say so, which is heeded. */
const KEEP_ALIVE_MS = 60_000;

/** Opens nothing: the first request does, and it imports the HTTP client too. */
export function createVendorClient(options: VendorClientOptions): VendorClient {
  const { clock, network, http2 = false, repeatsAreHarmless = true } = options;
  const { connections = MAX_CONNECTIONS, keepAliveMs = KEEP_ALIVE_MS } = options;
  let opening: Promise<Agent> | undefined;
  let closed = false;

  const open = async (): Promise<Agent> => {
    const { Agent, buildConnector } = await import("undici");
    const connector = buildConnector({ timeout: CONNECT_TIMEOUT_MS, allowH2: http2, preferH2: http2, ca: network?.ca });
    return new Agent({
      connect: routed(connector, network),
      connections: http2 ? 1 : connections,
      keepAliveTimeout: keepAliveMs,
      // The injected clock ends a request; these would measure on another one.
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: http2,
    });
  };

  return {
    async request(request) {
      if (closed) throw new RingError("transient", "the notifier is closed", { code: "closed", isRepeatable: false });
      const limit = deadline(clock, request.timeoutMs ?? REQUEST_TIMEOUT_MS, request.signal);
      try {
        limit.signal.throwIfAborted();
        opening ??= open();
        const { origin, pathname, search } = new URL(request.url);
        const { method = "POST", headers = {}, body = null } = request;
        const message = { origin, path: pathname + search, method, headers, body };
        const { status, headers: received, text } = await exchange(await opening, message, limit.signal);
        return toAnswer(status, received, text, clock.nowMs());
      } catch (error) {
        const isGivenUp = request.signal.aborted;
        const isOutOfTime = limit.signal.aborted;
        const isTooLarge = error instanceof AnswerTooLarge;
        throw failedRequest({ error, isGivenUp, isOutOfTime, isTooLarge, repeatsAreHarmless });
      } finally {
        limit.dispose();
      }
    },
    async close() {
      closed = true;
      await (await opening)?.destroy();
    },
  };
}
