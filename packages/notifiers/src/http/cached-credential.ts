/** An access token or a signed JWT: made once, used until shortly before its end, made by one for all who wait. */
import { aborted, type Clock, deadline } from "@leafmesh/protocol";
import { RingError } from "../contract.ts";

export interface MintedCredential<Value> {
  readonly value: Value;
  /** How long it is good for, from when it was asked for. */
  readonly lifetimeMs: number;
}

export interface CachedCredentialOptions<Value> {
  readonly clock: Clock;
  /** It is made anew so long before its end. Also the share of its life that is never used, at most a half. */
  readonly renewBeforeMs: number;
  /** Makes one. Its signal is not a caller's: whoever else waits needs it too. Throws {@link RingError}. */
  mint(signal: AbortSignal): Promise<MintedCredential<Value>>;
  /** How long making one may take; default 8 s. */
  readonly mintTimeoutMs?: number | undefined;
}

export interface CachedCredential<Value> {
  /** The one in use, or a new one. Throws what `mint` throws, or {@link RingError} (`transient`) when `signal` fires. */
  get(signal: AbortSignal): Promise<Value>;
  /**
   * What `work` makes of the credential. When the vendor refuses the credential itself, once more with another, which is
   * made once for all that were refused: nothing was rung then, so it is no repeat. Throws what the last `work` throws.
   */
  use<Result>(
    signal: AbortSignal,
    work: (value: Value) => Promise<Result>,
    isRefused: (error: RingError, value: Value) => boolean,
  ): Promise<Result>;
}

const MINT_TIMEOUT_MS = 8_000;

interface Held<Value> {
  readonly value: Value;
  readonly renewAtMs: number;
  readonly endsAtMs: number;
}

export function createCachedCredential<Value>(options: CachedCredentialOptions<Value>): CachedCredential<Value> {
  const { clock, renewBeforeMs, mintTimeoutMs = MINT_TIMEOUT_MS } = options;
  let held: Held<Value> | undefined;
  let minting: Promise<Value> | undefined;

  const mint = async (): Promise<Value> => {
    const askedAtMs = clock.monotonicMs();
    const limit = deadline(clock, mintTimeoutMs);
    try {
      const { value, lifetimeMs } = await untilAborted(options.mint(limit.signal), limit.signal, "timeout");
      const endsAtMs = askedAtMs + lifetimeMs;
      held = { value, endsAtMs, renewAtMs: endsAtMs - Math.min(renewBeforeMs, lifetimeMs / 2) };
      return value;
    } finally {
      limit.dispose();
    }
  };

  /** Does nothing when it has been replaced already. */
  const drop = (value: Value): void => {
    if (held?.value === value) held = undefined;
  };

  const cached: CachedCredential<Value> = {
    async get(signal) {
      const nowMs = clock.monotonicMs();
      const current = held;
      if (current && nowMs < current.renewAtMs) return current.value;
      minting ??= mint().finally(() => {
        minting = undefined;
      });
      try {
        return await untilAborted(minting, signal, "aborted");
      } catch (error) {
        // The old one still works: a renewal that fails is tried again by the next ring.
        if (current && current === held && nowMs < current.endsAtMs && !signal.aborted) return current.value;
        throw error;
      }
    },
    async use(signal, work, isRefused) {
      const value = await cached.get(signal);
      try {
        return await work(value);
      } catch (error) {
        if (!(error instanceof RingError) || !isRefused(error, value)) throw error;
        drop(value);
        return await work(await cached.get(signal));
      }
    },
  };
  return cached;
}

async function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal, code: string): Promise<Value> {
  const given = aborted(signal).then((): never => {
    const message = code === "timeout" ? "no access token could be had in time" : "the request was given up";
    throw new RingError("transient", message, { code });
  });
  return Promise.race([work, given]);
}
