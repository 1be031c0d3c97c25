/**
 * POSTs to addresses that the mesh did not choose. An address from a request may lead only into the public internet,
 * over https; one from the operator's file may lead into a private network as well, and never to link-local addresses,
 * where clouds keep the credentials of the machine; one from a device only into hosts that its provider lists. What a name resolves to is checked as a whole, and the connection
 * goes to exactly the addresses that were checked. Redirects are not followed; time and size are bounded.
 */

import { type LookupOptions, lookup as resolveName } from "node:dns";
import type { IncomingHttpHeaders } from "node:http";
import { isIP, type LookupFunction } from "node:net";
import type { Clock, Network } from "@leafmesh/protocol";
import type { Agent } from "undici";
import { createGuardedLookup, judgeAddress } from "./address-guard.ts";
import { judgeListedUrl } from "./listed-hosts.ts";
import { isPublicAddress } from "./public-address.ts";
import { routed } from "./routed.ts";
import { hostOf, parseUrl } from "./web-address.ts";

/** What can be wrong with any address. */
export type PublicRefusal =
  | "bad_url"
  /** `http:`, where only `https:` is taken. */
  | "not_https"
  /** Loopback, private, link-local or otherwise not of the public internet. */
  | "not_public";

export type RefusedBecause =
  | PublicRefusal
  /** Not one of the hosts that are listed, or on another port than theirs. */
  | "not_listed";

/** The address is not one that may be called. Nothing was sent. */
export class AddressRefused extends Error {
  override readonly name = "AddressRefused";
  readonly reason: RefusedBecause;

  constructor(reason: RefusedBecause) {
    super(`the address is refused: ${reason}`);
    this.reason = reason;
  }
}

/** The answer was larger than what is read of one. */
export class AnswerTooLarge extends Error {
  override readonly name = "AnswerTooLarge";
}

export interface GuardedPost {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly timeoutMs: number;
  /** Bytes of the answer that are read; more is an {@link AnswerTooLarge}. */
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

export interface GuardedAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface GuardedFetch {
  /** To an address that came with a request, except where it fits the operator's `allow` list. */
  postPublic(post: GuardedPost, allow: readonly string[]): Promise<GuardedAnswer>;
  /** To an address that stands in the operator's file. */
  postOperator(post: GuardedPost): Promise<GuardedAnswer>;
  /** To an address that a device gave, over https into one of `hosts` or a host below one, and to no other. */
  postListed(post: GuardedPost, hosts: readonly string[]): Promise<GuardedAnswer>;
  close(): Promise<void>;
}

export type ResolveAll = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: { address: string; family: number }[]) => void,
) => void;

const CONNECT_TIMEOUT_MS = 10_000;
const MAX_CONNECTIONS = 8;

/**
 * Why an address that came with a request cannot be called, as far as the address alone tells: what its name resolves to
 * is checked when it is called.
 */
export function judgePublicUrl(url: string, allow: readonly string[]): PublicRefusal | undefined {
  const parsed = parseUrl(url);
  if (!parsed) return "bad_url";
  if (isAllowed(parsed, allow)) return undefined;
  if (parsed.protocol !== "https:") return "not_https";
  const host = hostOf(parsed);
  return isIP(host) !== 0 && !isPublicAddress(host) ? "not_public" : undefined;
}

/** Opens nothing: the first call does, and it imports the HTTP client too. */
export function createGuardedFetch({
  clock,
  resolve = resolveName,
  network,
}: {
  readonly clock: Clock;
  readonly resolve?: ResolveAll | undefined;
  /** Where a test plays the hosts. What it routes is not resolved, so it is not judged by its numeric address either. */
  readonly network?: Network | undefined;
}): GuardedFetch {
  const agents = new Map<LookupFunction, Promise<Agent>>();
  const publicLookup = createPublicLookup(resolve);
  const operatorLookups = {
    "http:": createGuardedLookup(true, resolve),
    "https:": createGuardedLookup(false, resolve),
  };
  let closed = false;

  const agentFor = (lookup: LookupFunction): Promise<Agent> => {
    const known = agents.get(lookup);
    if (known) return known;
    const opening = import("undici").then(
      ({ Agent, buildConnector }) =>
        new Agent({
          connect: routed(
            buildConnector({ timeout: CONNECT_TIMEOUT_MS, lookup, ca: network?.ca, allowH2: false }),
            network,
          ),
          connections: MAX_CONNECTIONS,
          maxResponseSize: -1,
          allowH2: false,
        }),
    );
    agents.set(lookup, opening);
    return opening;
  };

  const postOperator = (post: GuardedPost): Promise<GuardedAnswer> => {
    const url = parseUrl(post.url);
    if (!url) throw new AddressRefused("bad_url");
    const isPlaintext = url.protocol === "http:";
    if (judgeAddress(hostOf(url), isPlaintext)) throw new AddressRefused("not_public");
    return send(post, operatorLookups[isPlaintext ? "http:" : "https:"]);
  };

  const send = async (post: GuardedPost, lookup: LookupFunction): Promise<GuardedAnswer> => {
    if (closed) throw new Error("the fetch is closed");
    const timeout = new AbortController();
    const timer = clock.schedule(post.timeoutMs, () => timeout.abort(new Error("no answer in time")));
    const signal = AbortSignal.any([post.signal, timeout.signal]);
    try {
      const [{ request }, dispatcher] = [await import("undici"), await agentFor(lookup)];
      const { headers, body } = post;
      const answer = await request(post.url, { dispatcher, method: "POST", headers, body, signal });
      return { status: answer.statusCode, headers: answer.headers, body: await readText(answer.body, post.maxBytes) };
    } finally {
      timer.cancel();
    }
  };

  return {
    async postPublic(post, allow) {
      const reason = judgePublicUrl(post.url, allow);
      if (reason) throw new AddressRefused(reason);
      const url = parseUrl(post.url);
      return url && isAllowed(url, allow) ? postOperator(post) : send(post, publicLookup);
    },
    async postOperator(post) {
      return postOperator(post);
    },
    async postListed(post, hosts) {
      const reason = judgeListedUrl(post.url, hosts);
      if (reason) throw new AddressRefused(reason);
      return send(post, publicLookup);
    },
    async close() {
      closed = true;
      await Promise.all([...agents.values()].map(async (agent) => (await agent).destroy()));
    },
  };
}

/** Whether an address fits one of the operator's origins; a port of `*` is any. */
function isAllowed(url: URL, allow: readonly string[]): boolean {
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  return allow.some((entry) => {
    const [, protocol, host, wanted] = /^(https?:)\/\/(.+?)(?::(\d+|\*))?$/.exec(entry) ?? [];
    if (protocol !== url.protocol || host?.toLowerCase() !== url.hostname) return false;
    return wanted === "*" || port === (wanted ?? (protocol === "https:" ? "443" : "80"));
  });
}

/** Name resolution that fails when any address of the name is not public, and hands out what it has checked. */
function createPublicLookup(resolve: ResolveAll): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      if (addresses.some(({ address }) => !isPublicAddress(address))) {
        return callback(new AddressRefused("not_public"), []);
      }
      const [first] = addresses;
      if (options.all || !first) return callback(null, addresses);
      callback(null, first.address, first.family);
    });
  };
}

async function readText(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new AnswerTooLarge(`the answer is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
