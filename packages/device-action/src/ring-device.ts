/** Rings a device: signs the ring, hands it to the notifier, tries again where that can help. */

import {
  type Notifier,
  RingError,
  type RingReceipt,
  type RingRequest,
  ringWithRetry,
} from "@leafmesh/notifiers/contract";
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
  return ringWithRetry(
    async () => {
      try {
        return await ringOnce(ringing, signed);
      } catch (error) {
        throw error instanceof GivenUp && error.why === "aborted" ? error : toRingError(error, ringing.logger);
      }
    },
    {
      leftMs: ringing.leftMs,
      random: ringing.random,
      onRetry: ringing.onRetry,
      pause: (ms) => pause(ringing.clock, ms, ringing.signal),
    },
  );
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

function toRingError(error: unknown, logger: Logger): RingError {
  if (error instanceof RingError) return error;
  if (error instanceof GivenUp)
    return new RingError("transient", "the push service did not answer in time", { mayHaveRung: true });
  logger.error("a notifier failed in a way it should not", { error });
  return new RingError("bad_request", "the notifier failed", { cause: error });
}
