/** Rings a device: signs the ring, hands it to the notifier, tries again where that can help. */

import { type Notifier, RingError, type RingReceipt, type RingRequest } from "@leafmesh/notifiers/contract";
import {
  type Clock,
  type Logger,
  MAX_RING_BYTES,
  type Ring,
  type RingSigner,
  type Secret,
  utf8Length,
} from "@leafmesh/protocol";
import { bounded, GivenUp, pause } from "./bounded.ts";

const ATTEMPT_MS = 10_000;
const MAX_ATTEMPTS = 3;
const FIRST_PAUSE_MS = 500;
/** Share of a pause that is left to chance, so that rings that failed together do not come back together. */
const JITTER = 0.25;

export interface Ringing {
  readonly notifier: Notifier;
  readonly signer: RingSigner;
  readonly pushToken: Secret;
  readonly ring: Omit<Ring, "kid" | "sig">;
  /** Time until the device could no longer join. */
  leftMs(): number;
  /** A number from 0 to 1. */
  random(): number;
  /** Told of each attempt that failed and is made again. */
  onRetry(error: RingError): void;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Resolves when the notifier took the ring. Throws {@link RingError}, or {@link GivenUp} when `signal` fired. */
export async function ringDevice(ringing: Ringing): Promise<RingReceipt> {
  const signed = await signToFit(ringing);
  for (let attempt = 1; ; attempt++) {
    try {
      return await ringOnce(ringing, signed);
    } catch (error) {
      if (error instanceof GivenUp && error.why === "aborted") throw error;
      const failure = toRingError(error, ringing.logger);
      const pauseMs = pauseBefore(attempt, failure, ringing.random());
      if (failure.kind !== "transient" || attempt === MAX_ATTEMPTS || pauseMs >= ringing.leftMs()) throw failure;
      ringing.onRetry(failure);
      await pause(ringing.clock, pauseMs, ringing.signal);
    }
  }
}

type SignedRing = Pick<RingRequest, "ring" | "body">;

/** The mesh's name is for the notification alone: it goes first when a ring is too long. */
async function signToFit({ signer, ring }: Ringing): Promise<SignedRing> {
  const { mesh: _name, ...bare } = ring;
  for (const candidate of ring.mesh === undefined ? [bare] : [ring, bare]) {
    const signed = await signer.sign(candidate);
    const body = JSON.stringify(signed);
    if (utf8Length(body) <= MAX_RING_BYTES) return { ring: signed, body };
  }
  throw new RingError("too_big", `the ring is over ${MAX_RING_BYTES} bytes: the room's join information is too long`);
}

function ringOnce({ notifier, pushToken, leftMs, signal, clock }: Ringing, signed: SignedRing): Promise<RingReceipt> {
  const ttlMs = Math.max(leftMs(), 0);
  const request: RingRequest = { ...signed, collapseKey: signed.ring.ask, ttlMs, approval: signed.ring.approval };
  return bounded(clock, Math.min(ATTEMPT_MS, ttlMs), signal, (inner) => notifier.ring(request, pushToken, inner));
}

function pauseBefore(attempt: number, failure: RingError, random: number): number {
  const waitMs = failure.retryAfterMs ?? FIRST_PAUSE_MS * 2 ** (attempt - 1);
  return Math.max(waitMs, 0) * (1 + JITTER * random);
}

function toRingError(error: unknown, logger: Logger): RingError {
  if (error instanceof RingError) return error;
  if (error instanceof GivenUp) return new RingError("transient", "the push service did not answer in time");
  logger.error("a notifier failed in a way it should not", { error });
  return new RingError("bad_request", "the notifier failed", { cause: error });
}
