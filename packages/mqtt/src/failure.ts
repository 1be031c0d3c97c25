/**
 * Why something over MQTT did not work, in one shape for connecting, publishing and subscribing. Whoever uses it maps
 * the kind to its own errors.
 */
export type MqttFailureKind =
  /** The broker refused the login, the client certificate, or a right on a topic. */
  | "credential"
  /** The broker's own certificate is not trusted, or is for another host. */
  | "identity"
  /** A quota or plan limit of the broker. */
  | "quota"
  /** Too many connections or messages for now. */
  | "rate"
  | "too_big"
  /** The broker says that what was sent is wrong. */
  | "bad_request"
  /** It answers, but not as an MQTT broker that this can work with. */
  | "unsupported"
  /** No answer, or "not now". */
  | "unavailable"
  /** The caller's signal ended the attempt. */
  | "aborted";

/** `message` is a sentence for the operator: what the broker said and what to do. Never holds a secret or a payload. */
export class MqttFailure extends Error {
  override readonly name = "MqttFailure";
  readonly kind: MqttFailureKind;
  /** A reason code of MQTT such as `135`, or a socket's such as `ECONNREFUSED`. */
  readonly code: string | undefined;

  constructor(
    kind: MqttFailureKind,
    message: string,
    more: { readonly code?: string | undefined; readonly cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.kind = kind;
    this.code = more.code;
  }
}

/** The failure of an attempt that `signal` ended. */
export function abortedFailure(signal: AbortSignal): MqttFailure {
  return new MqttFailure("aborted", "the attempt was ended before the broker answered", { cause: signal.reason });
}

/** Whether another attempt, some time later and with nothing changed, can work. */
export function mayPass(failure: MqttFailure): boolean {
  return failure.kind === "unavailable" || failure.kind === "rate" || failure.kind === "aborted";
}
