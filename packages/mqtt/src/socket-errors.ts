/** What a socket's error means for the operator. Codes are Node's and OpenSSL's. */
import { MqttFailure, type MqttFailureKind } from "./failure.ts";

interface Rule {
  readonly matches: RegExp;
  readonly kind: MqttFailureKind;
  readonly sentence: string;
}

/** Tried in order against the error's code. */
const rules: readonly Rule[] = [
  {
    matches:
      /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(VERIFY|GET).*|CERT_UNTRUSTED|INVALID_CA)$/,
    kind: "identity",
    sentence: "its certificate is not signed by a known authority; put your CA's certificate into ca_cert",
  },
  {
    matches: /^ERR_TLS_CERT_ALTNAME_INVALID$|^HOSTNAME_MISMATCH$/,
    kind: "identity",
    sentence: "its certificate is for another host name; use the name that the certificate carries",
  },
  {
    matches: /^CERT_(HAS_EXPIRED|NOT_YET_VALID|REVOKED|REJECTED|SIGNATURE_FAILURE)$/,
    kind: "identity",
    sentence: "its certificate is expired, not yet valid or revoked",
  },
  {
    matches: /^ERR_SSL_.*CERTIFICATE_REQUIRED$/,
    kind: "credential",
    sentence: "it asks for a client certificate; set client_cert and client_key",
  },
  {
    matches:
      /^ERR_SSL_.*(ALERT_(BAD|EXPIRED|REVOKED|UNSUPPORTED)_CERTIFICATE|CERTIFICATE_(EXPIRED|REVOKED|UNKNOWN)|UNKNOWN_CA|ACCESS_DENIED)$/,
    kind: "credential",
    sentence: "it does not accept the client certificate",
  },
  {
    matches: /^ERR_SSL_.*HANDSHAKE_FAILURE$/,
    kind: "credential",
    sentence: "the TLS handshake was refused; it may ask for a client certificate (client_cert and client_key)",
  },
  {
    matches: /^ERR_OSSL_X509_KEY_VALUES_MISMATCH$/,
    kind: "credential",
    sentence: "client_cert and client_key do not belong together",
  },
  {
    matches: /^(ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|UNEXPECTED_MESSAGE)|EPROTO)$/,
    kind: "unsupported",
    sentence: "this port does not speak TLS; use mqtt: or ws:, or the broker's TLS port",
  },
  { matches: /^HTTP_(401|403)$/, kind: "credential", sentence: "the WebSocket address refused the request" },
  {
    matches: /^HTTP_(429|5\d\d)$/,
    kind: "unavailable",
    sentence: "the WebSocket address did not let the connection through",
  },
  {
    matches: /^HTTP_\d\d\d$/,
    kind: "unsupported",
    sentence: "there is no MQTT over WebSocket at this path; many brokers use /mqtt",
  },
  {
    matches: /^metadata_address$/,
    kind: "bad_request",
    sentence: "its address is link-local or a cloud's metadata service, which the mesh does not connect to",
  },
  { matches: /^(ENOTFOUND|EAI_.*)$/, kind: "unavailable", sentence: "its name does not resolve" },
  { matches: /^ECONNREFUSED$/, kind: "unavailable", sentence: "nothing listens on this address and port" },
  {
    matches: /^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN)$/,
    kind: "unavailable",
    sentence: "it cannot be reached",
  },
];

/** Why a connection was not made. `secure` says whether it was TLS, which turns a bare reset into the likely cure. */
export function socketFailure(error: unknown, broker: string, secure: boolean): MqttFailure {
  const code = codeOf(error);
  if (code === undefined) {
    const sentence = `MQTT broker ${broker}: what answers there does not speak MQTT (${textOf(error)}); check host and port.`;
    return new MqttFailure("unsupported", sentence, { cause: error });
  }
  const rule = rules.find(({ matches }) => matches.test(code));
  const { kind, sentence } = rule ?? { kind: "unavailable", sentence: `the connection failed. ${hint(secure)}` };
  return new MqttFailure(kind, `MQTT broker ${broker}: ${sentence} (${code}).`, { code, cause: error });
}

/** A connection that was up is gone: whatever the reason, another one may work. */
export function lostFailure(error: unknown, broker: string): MqttFailure {
  const why = error === undefined ? "" : ` (${codeOf(error) ?? textOf(error)})`;
  return new MqttFailure("unavailable", `The connection to MQTT broker ${broker} was lost${why}.`, {
    code: codeOf(error) ?? "closed",
    ...(error === undefined ? {} : { cause: error }),
  });
}

/** The broker took the connection and closed it before it answered. */
export function silentCloseFailure(broker: string, secure: boolean): MqttFailure {
  return new MqttFailure(
    "unavailable",
    `MQTT broker ${broker} closed the connection without an answer. ${hint(secure)}.`,
    {
      code: "closed",
    },
  );
}

function hint(secure: boolean): string {
  return secure ? "Is this a TLS port? If not, use mqtt: or ws:." : "If this is a TLS port, use mqtts: or wss:.";
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : "no reason given";
}

/** The error's own code, or the one of the first error that an `AggregateError` of several addresses holds. */
function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  if ("code" in error && typeof error.code === "string") return error.code;
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return undefined;
}
