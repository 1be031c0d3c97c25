/** Turns what goes wrong with a call into a {@link ModelError} that says where, what, and what to do. */
import type { IncomingHttpHeaders } from "node:http";
import { readRetryAfter } from "@leafmesh/protocol";
import { ModelError, type ModelErrorKind } from "./contract.ts";
import type { Endpoint } from "./endpoint.ts";
import { readVendorError, type VendorError } from "./vendor-error.ts";

/** An answer that is no answer. `body` was read with a size limit. */
export interface RefusedCall {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const MAX_QUOTED_LENGTH = 300;

/** The error of an answer with a status outside 200–299. */
export function statusError(endpoint: Endpoint, model: string, call: RefusedCall, nowMs: number): ModelError {
  const { status } = call;
  const vendor = readVendorError(call.body);
  const { kind, cure } = judgeStatus(endpoint, model, call, vendor);
  return new ModelError(kind, sentence(endpoint, `answered ${status}`, quote(endpoint, vendor), cure), {
    status,
    retryAfterMs: kind === "transient" ? readRetryAfter(call.headers, nowMs) : undefined,
  });
}

/** The error that a server writes into a stream, or into a body with status 200. */
export function reportedError(endpoint: Endpoint, error: unknown): ModelError {
  const vendor = readVendorError(error);
  const status = vendor.status ?? 0;
  const isRefusal = (status >= 400 && !isTransient(status)) || LASTING_CODES.has(vendor.code ?? "");
  return new ModelError(
    isRefusal ? "bad_request" : "transient",
    sentence(endpoint, "reported an error instead of an answer", quote(endpoint, vendor)),
    { status: vendor.status },
  );
}

/** Codes of errors that stay, whatever their status. */
const LASTING_CODES: ReadonlySet<string> = new Set(["invalid_request_error", "insufficient_quota"]);

export function badAnswerError(endpoint: Endpoint, what: string, cause?: unknown): ModelError {
  return new ModelError("bad_answer", sentence(endpoint, what), { cause });
}

/** The stream stopped before the answer was complete. */
export function cutError(endpoint: Endpoint, cause?: unknown): ModelError {
  return new ModelError("transient", sentence(endpoint, "ended its answer in the middle"), { cause });
}

/** The connection could not be made, or broke. `answering`: after the head of the answer had come. */
export function connectionError(endpoint: Endpoint, cause: unknown, answering: boolean): ModelError {
  const code = codeOf(cause);
  const known = code === undefined ? undefined : CONNECTION_FAILURES.get(code);
  if (known && !(answering && known === BROKEN)) {
    return new ModelError(known.kind, sentence(endpoint, known.what, undefined, known.cure), { cause });
  }
  if (code !== undefined && (code.startsWith("ERR_TLS_") || code.startsWith("ERR_SSL_") || code.includes("CERT"))) {
    return new ModelError("bad_request", sentence(endpoint, `failed the TLS handshake (${code})`), { cause });
  }
  if (cause instanceof Error && cause.name === "HTTPParserError") {
    return new ModelError("bad_answer", sentence(endpoint, "sent something that is not HTTP"), { cause });
  }
  if (answering) return cutError(endpoint, cause);
  const detail = code ?? (cause instanceof Error ? cause.message : String(cause));
  return new ModelError("transient", sentence(endpoint, `broke the connection (${endpoint.redact(detail)})`), {
    cause,
  });
}

interface Judgement {
  readonly kind: ModelErrorKind;
  readonly cure?: string | undefined;
}

function judgeStatus(endpoint: Endpoint, model: string, call: RefusedCall, vendor: VendorError): Judgement {
  const { status } = call;
  if (status === 401) return { kind: "bad_credential", cure: `Check ${endpoint.apiKeyPlace}.` };
  if (status === 403) {
    return { kind: "bad_credential", cure: `Check what the key in ${endpoint.apiKeyPlace} may use.` };
  }
  if (status === 402 || vendor.code === "insufficient_quota") {
    return { kind: "bad_request", cure: "The account has no credit left: check its plan and billing." };
  }
  if (status === 404 || status === 405) {
    return { kind: "bad_request", cure: `Is "${model}" a model of this endpoint, and does base_url end in its /v1?` };
  }
  if (status >= 300 && status < 400) {
    return {
      kind: "bad_request",
      cure: `Redirects are not followed: ${redirectCure(endpoint, call.headers.location)}`,
    };
  }
  return { kind: isTransient(status) ? "transient" : "bad_request" };
}

function isTransient(status: number): boolean {
  return status === 408 || status === 409 || status === 425 || status === 429 || status >= 500;
}

function redirectCure(endpoint: Endpoint, location: string | undefined): string {
  const target = URL.parse(location ?? "", endpoint.origin);
  if (!target) return "set base_url to the address that answers.";
  const path = target.pathname.replace(/\/chat\/completions\/?$/, "");
  return `set base_url to the address that answers, perhaps ${endpoint.redact(target.origin + path).slice(0, MAX_QUOTED_LENGTH)}.`;
}

interface ConnectionFailure extends Judgement {
  readonly what: string;
}

const NOT_TRUSTED: ConnectionFailure = {
  kind: "bad_request",
  what: "shows a TLS certificate that this machine does not trust",
  cure: "Give its certificate authority to Node with NODE_EXTRA_CA_CERTS.",
};
const NO_ROUTE: ConnectionFailure = {
  kind: "transient",
  what: "cannot be reached from this machine's network",
  cure: "Check the network and base_url.",
};
const BROKEN: ConnectionFailure = { kind: "transient", what: "closed the connection before it answered" };
const CLOSED: ConnectionFailure = { kind: "aborted", what: "was closed by this mesh" };

const CONNECTION_FAILURES: ReadonlyMap<string, ConnectionFailure> = new Map<string, ConnectionFailure>([
  ["ECONNREFUSED", { kind: "transient", what: "refused the connection", cure: "Is the server running?" }],
  ["ENOTFOUND", { kind: "transient", what: "has a host name that does not exist", cure: "Check base_url." }],
  [
    "EAI_AGAIN",
    { kind: "transient", what: "has a host name that could not be looked up", cure: "Is the DNS reachable?" },
  ],
  [
    "metadata_address",
    { kind: "bad_request", what: "leads to a link-local address, which the mesh does not connect to" },
  ],
  [
    "plaintext_address",
    { kind: "bad_request", what: "leads to a public address without TLS", cure: "Use https:// in base_url." },
  ],
  ["EHOSTUNREACH", NO_ROUTE],
  ["ENETUNREACH", NO_ROUTE],
  ["ETIMEDOUT", { kind: "transient", what: "did not accept the connection in time", cure: "Is the server reachable?" }],
  [
    "UND_ERR_CONNECT_TIMEOUT",
    { kind: "transient", what: "did not accept the connection in time", cure: "Is the server reachable?" },
  ],
  ["UND_ERR_HEADERS_TIMEOUT", { kind: "transient", what: "did not begin to answer in time" }],
  ["UND_ERR_BODY_TIMEOUT", { kind: "transient", what: "fell silent in the middle of its answer" }],
  ["UND_ERR_HEADERS_OVERFLOW", { kind: "bad_answer", what: "sent headers that are too large" }],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", NOT_TRUSTED],
  ["SELF_SIGNED_CERT_IN_CHAIN", NOT_TRUSTED],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", NOT_TRUSTED],
  ["UNABLE_TO_GET_ISSUER_CERT", NOT_TRUSTED],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", NOT_TRUSTED],
  ["CERT_HAS_EXPIRED", { kind: "bad_request", what: "shows a TLS certificate that has expired" }],
  [
    "ERR_TLS_CERT_ALTNAME_INVALID",
    { kind: "bad_request", what: "shows a TLS certificate for another host", cure: "Check base_url." },
  ],
  [
    "ERR_SSL_WRONG_VERSION_NUMBER",
    { kind: "bad_request", what: "does not speak TLS", cure: "Does base_url need http:// instead of https://?" },
  ],
  [
    "ERR_SSL_PACKET_LENGTH_TOO_LONG",
    { kind: "bad_request", what: "does not speak TLS", cure: "Does base_url need http:// instead of https://?" },
  ],
  ["TRANSPORT_CLOSED", CLOSED],
  ["UND_ERR_DESTROYED", CLOSED],
  ["UND_ERR_CLOSED", CLOSED],
  ["ECONNRESET", BROKEN],
  ["EPIPE", BROKEN],
  ["UND_ERR_SOCKET", BROKEN],
]);

/** The code of an error, of its cause, or of the first of several attempts. */
function codeOf(error: unknown, depth = 0): string | undefined {
  if (!(error instanceof Error) || depth > 3) return undefined;
  const own = "code" in error && typeof error.code === "string" ? error.code : undefined;
  if (own !== undefined && own !== "UND_ERR_SOCKET") return own;
  const inner = error instanceof AggregateError ? error.errors[0] : error.cause;
  return codeOf(inner, depth + 1) ?? own;
}

/** The vendor's own words: one line, cut, without credentials. */
function quote(endpoint: Endpoint, vendor: VendorError): string | undefined {
  if (vendor.message === undefined) return undefined;
  const line = endpoint.redact(vendor.message).replaceAll(/[\s\p{Cc}\p{Cf}]+/gu, " ");
  const trimmed = line.trim();
  return trimmed.length > MAX_QUOTED_LENGTH ? `${trimmed.slice(0, MAX_QUOTED_LENGTH)}…` : trimmed;
}

function sentence(endpoint: Endpoint, what: string, quoted?: string, cure?: string): string {
  const said = quoted === undefined ? "." : `: "${quoted}".`;
  return `${endpoint.title} ${what}${said}${cure === undefined ? "" : ` ${cure}`}`;
}
