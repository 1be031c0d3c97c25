/** How rings fail. Part of the contract, which is where adapters import it from. */
export interface RingErrorDetails {
  readonly code?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly mayHaveRung?: boolean | undefined;
  readonly isRepeatable?: boolean | undefined;
  readonly cause?: unknown;
}

/**
 * - `dead_token`: the provider will never reach this device with this token; the app should forget it.
 * - `offline`: the device is not connected, and the provider does not keep the ring for it.
 * - `bad_credential`: the record's key, its rights or its project were refused; the operator has to act.
 * - `quota`: a rate or a plan's limit.
 * - `transient`: it may work in a moment, and nothing says that it cannot. The mesh rings again within the ask's time.
 * - `bad_request`: the provider does not understand what was sent.
 * - `too_big`: the payload is over the provider's limit.
 */
export type RingErrorKind =
  | "dead_token"
  | "offline"
  | "bad_credential"
  | "quota"
  | "transient"
  | "bad_request"
  | "too_big";

/**
 * Why a ring was not taken. `message` is for people: a sentence that names the cure where there is one, without a token
 * and without the provider's raw body.
 */
export class RingError extends Error {
  override readonly name = "RingError";
  readonly kind: RingErrorKind;
  /** The provider's own code, such as `UNREGISTERED` or `135`. */
  readonly code: string | undefined;
  /** What the provider asks to wait before the next try. */
  readonly retryAfterMs: number | undefined;
  /** Whether the provider may have taken the ring all the same: the request went out and nothing is known of it. */
  readonly mayHaveRung: boolean;
  /** Whether a `transient` failure may be followed by the same ring. False where the device could ring twice. */
  readonly isRepeatable: boolean;

  constructor(kind: RingErrorKind, message: string, more: RingErrorDetails = {}) {
    super(message, { cause: more.cause });
    this.kind = kind;
    this.code = more.code;
    this.retryAfterMs = more.retryAfterMs;
    this.mayHaveRung = more.mayHaveRung ?? false;
    this.isRepeatable = more.isRepeatable ?? true;
  }
}
