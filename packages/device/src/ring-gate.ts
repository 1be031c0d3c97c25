/** What a ring must pass before a device does anything about it. */
import {
  type Clock,
  isRingFrom,
  joinInfoSchema,
  MAX_RING_BYTES,
  type MeshKey,
  type Ring,
  ringSchema,
  utf8Length,
} from "@leafmesh/protocol";
import { isLoopbackAddress } from "./addresses.ts";
import { errorText } from "./error-text.ts";
import { parseJson } from "./frames.ts";

/** How far this device's clock may be off before a good ring looks expired or not yet written. */
export const CLOCK_SKEW_MS = 60_000;

/** How long ids are remembered. A ring that claims to live longer could be replayed after that, so it is not believed. */
export const REMEMBER_MS = 24 * 3_600_000;

/** Why a ring was not acted on. */
export type RingFault =
  | "too_large"
  | "malformed"
  | "other_device"
  | "expired"
  | "bad_times"
  | "unsigned"
  | "bad_signature"
  /** `meshKeys` is a function and it failed: nothing can be said about the ring. */
  | "keys_unavailable";

export type GateVerdict =
  | { readonly ok: true; readonly ring: Ring }
  | { readonly ok: false; readonly fault: RingFault; readonly detail: string };

export interface GateRules {
  readonly deviceId: string;
  readonly clock: Clock;
  /** Keys of the meshes that may ring. Without them only rings of this very machine are taken. */
  readonly meshKeys?: (() => Promise<readonly MeshKey[]>) | undefined;
  /** The signature check; {@link isRingFrom} unless the runtime lacks WebCrypto's Ed25519. */
  readonly verifyRing?: ((ring: Ring, keys: readonly MeshKey[]) => Promise<boolean>) | undefined;
}

/** A later mesh may add fields, and its signature covers them: they must not be lost before it is checked. */
const signedRingSchema = ringSchema.extend({ join: joinInfoSchema.loose() }).loose();

/** `input` is the ring as it came: its JSON text, or the object that a push library made of it. */
export async function admitRing(input: unknown, rules: GateRules): Promise<GateVerdict> {
  const text = typeof input === "string" ? input : jsonOf(input);
  if (text === undefined) return refuse("malformed", "the ring is not JSON");
  const bytes = utf8Length(text);
  if (bytes > MAX_RING_BYTES) return refuse("too_large", `the ring has ${bytes} bytes, the limit is ${MAX_RING_BYTES}`);
  const parsed = signedRingSchema.safeParse(parseJson(text));
  if (!parsed.success) return refuse("malformed", firstIssue(parsed.error.issues));
  const ring = parsed.data;
  if (ring.device !== rules.deviceId) return refuse("other_device", `the ring is for device "${ring.device}"`);
  return checkTimes(ring, rules.clock.nowMs()) ?? (await checkOrigin(ring, rules)) ?? { ok: true, ring };
}

function checkTimes(ring: Ring, nowMs: number): GateVerdict | undefined {
  if (nowMs - CLOCK_SKEW_MS > ring.exp * 1000) {
    return refuse("expired", `the ring's time was over at ${isoTime(ring.exp)}`);
  }
  if (ring.exp <= ring.iat) return refuse("bad_times", "the ring ends before it was written");
  if (ring.iat * 1000 > nowMs + CLOCK_SKEW_MS) {
    return refuse("bad_times", `the ring says it was written at ${isoTime(ring.iat)}; is this device's clock right?`);
  }
  if (ring.exp * 1000 > nowMs + REMEMBER_MS) return refuse("bad_times", "the ring lives for longer than a day");
  return undefined;
}

async function checkOrigin(ring: Ring, rules: GateRules): Promise<GateVerdict | undefined> {
  if (!rules.meshKeys) {
    if (ring.join.url !== undefined && isLoopbackAddress(ring.join.url)) return undefined;
    return refuse("unsigned", "no `meshKeys` are set, so only rings of a mesh on this machine are taken");
  }
  if (ring.sig === undefined) return refuse("unsigned", "the ring is not signed");
  let keys: readonly MeshKey[];
  try {
    keys = await rules.meshKeys();
  } catch (cause) {
    return refuse("keys_unavailable", `the mesh's keys could not be had: ${errorText(cause)}`);
  }
  const genuine = await (rules.verifyRing ?? isRingFrom)(ring, keys);
  return genuine ? undefined : refuse("bad_signature", "the ring was not signed by a key of `meshKeys`");
}

function refuse(fault: RingFault, detail: string): GateVerdict {
  return { ok: false, fault, detail };
}

function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

function isoTime(seconds: number): string {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? String(seconds) : time.toISOString();
}

function firstIssue(issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[]): string {
  const issue = issues[0];
  return issue ? `${issue.path.map(String).join(".") || "ring"}: ${issue.message}` : "not a ring";
}
