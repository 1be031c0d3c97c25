/** What is known of a request that got no answer. Pure. */

/** The network's own code, such as `ECONNREFUSED`. Its message is left out: it may name the address. */
export function errorCode(error: unknown): string {
  const code = isObject(error) ? error.code : undefined;
  return typeof code === "string" ? code : "unknown";
}

const BEFORE_SENDING = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "UND_ERR_CONNECT_TIMEOUT",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_UNTRUSTED",
]);

/** Whether the request certainly did not leave: the connection was never made, or its other end is not the vendor. */
export function neverArrived(error: unknown): boolean {
  const code = errorCode(error);
  return BEFORE_SENDING.has(code) || code.startsWith("ERR_TLS_") || code.startsWith("ERR_SSL_");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
