/** Where an OpenAI-compatible endpoint is, what is sent with every call, and how it is named in messages. */
import { isIP } from "node:net";
import { type AddressRefusal, FORBIDDEN_ADDRESS, judgeAddress } from "@leafmesh/guarded-fetch";
import type { Secret } from "@leafmesh/protocol";
import { ModelError } from "./contract.ts";

export const OPENAI_BASE_URL = "https://api.openai.com/v1";

export interface EndpointSettings {
  /** Name under `models:`. */
  readonly name: string;
  /** With scheme and path, such as `http://127.0.0.1:11434/v1`; left out: OpenAI's. */
  readonly baseUrl?: string | undefined;
  readonly apiKey?: Secret | undefined;
  /** Where the operator put the key or would put it, such as `models.local.api_key`. */
  readonly apiKeyPlace: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** What an operator writes as `api_key` of a server that asks for none. */
const NO_KEY = "none";

/** An endpoint that can be called. */
export interface Endpoint {
  readonly name: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** Path and query of the chat completions. */
  readonly path: string;
  /** Name and address for people; holds no credential. */
  readonly title: string;
  readonly apiKeyPlace: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether calls travel without TLS. */
  readonly isPlaintext: boolean;
  /** Whether they stay on this machine. */
  readonly isLoopback: boolean;
  /** The text with everything in it that the endpoint's settings keep secret blacked out. */
  redact(text: string): string;
}

/** Checks the settings. Throws a {@link ModelError} that names what is wrong and where. */
export function resolveEndpoint(settings: EndpointSettings): Endpoint {
  const place = `models.${settings.name}`;
  const address = settings.baseUrl ?? OPENAI_BASE_URL;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw wrong(`${place}.base_url: not an http or https address; write it as http://127.0.0.1:11434/v1`);
  }
  if (url.username !== "" || url.password !== "") {
    throw wrong(`${place}.base_url: holds a user name or password; use api_key or headers instead`);
  }
  const isPlaintext = url.protocol === "http:";
  const refusal = judgeAddress(hostOf(url), isPlaintext);
  if (refusal) throw wrong(`${place}.base_url: ${REFUSALS[refusal]}`);
  const { origin, search } = url;
  const basePath = url.pathname.replace(/\/+$/, "");
  const writtenKey = settings.apiKey?.reveal().trim() ?? "";
  const apiKey = writtenKey === NO_KEY ? "" : writtenKey;
  const headers = {
    "content-type": "application/json",
    accept: "text/event-stream, application/json",
    ...(apiKey === "" ? {} : { authorization: `Bearer ${apiKey}` }),
    ...lowerCaseNames(settings.headers ?? {}),
  };
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      const source = name === "authorization" ? settings.apiKeyPlace : `${place}.headers.${name}`;
      throw wrong(`${source}: holds characters that a header cannot carry`);
    }
  }
  const secrets = [apiKey, ...Object.values(settings.headers ?? {}), ...url.searchParams.values()];
  return {
    name: settings.name,
    origin,
    path: `${basePath}/chat/completions${search}`,
    title: `${place} (${origin}${basePath})`,
    apiKeyPlace: settings.apiKeyPlace,
    headers,
    isPlaintext,
    isLoopback: isLoopback(hostOf(url)),
    redact: createRedactor(secrets),
  };
}

/** Values shorter than this are not secrets and would black out ordinary words. */
const SHORTEST_SECRET = 6;
const REDACTED = "[redacted]";
/** Keys as vendors write and mask them, and bearer tokens: what an error body may echo of somebody's credential. */
const LOOKS_SECRET = /\b(?:Bearer\s+\S+|(?:sk|pk|rk|gsk|xai|key)[-_][\w*.-]{4,}|\w{2,}\*{3,}\w*)/gi;

function createRedactor(secrets: readonly string[]): (text: string) => string {
  const known = secrets
    .filter((secret) => secret.length >= SHORTEST_SECRET)
    .sort((left, right) => right.length - left.length);
  return (text) =>
    known.reduce((left, secret) => left.replaceAll(secret, REDACTED), text).replace(LOOKS_SECRET, REDACTED);
}

function lowerCaseNames(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

const REFUSALS: Record<AddressRefusal, string> = {
  metadata_address: FORBIDDEN_ADDRESS,
  plaintext_address: "is a public address; use https://",
};

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, "");
}

function isLoopback(host: string): boolean {
  if (host === "localhost" || host.endsWith(".localhost")) return true;
  return isIP(host) === 4 ? host.startsWith("127.") : host === "::1";
}

function wrong(message: string): ModelError {
  return new ModelError("bad_request", message);
}
