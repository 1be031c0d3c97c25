import { RingError, type RingErrorKind } from "@leafmesh/notifiers/contract";
import {
  createRingSigner,
  isRingFrom,
  MAX_RING_BYTES,
  type Ring,
  Secret,
  silentLogger,
  utf8Length,
} from "@leafmesh/protocol";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { ScriptedNotifier } from "@leafmesh/testkit/ask";
import { describe, expect, it } from "vitest";
import { type Ringing, ringDevice } from "./ring-device.ts";

const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
if (!("privateKey" in pair)) throw new Error("a key pair was asked for");
const signer = await createRingSigner(pair);

const RING: Omit<Ring, "kid" | "sig"> = {
  v: 1,
  ask: "ask_1",
  device: "phone-7",
  approval: "ask",
  mesh: "phone-support",
  iat: 1_800_000_000,
  exp: 1_800_000_060,
  join: { provider: "leafmesh", url: "wss://mesh.example.com/v1/connect", room: "room-1", token: "secret-of-the-room" },
};

function ringing(clock: FakeClock, notifier: ScriptedNotifier, more: Partial<Ringing> = {}): Promise<unknown> {
  return ringDevice({
    notifier,
    signer,
    pushToken: new Secret("push-token-1"),
    ring: RING,
    leftMs: () => 60_000 - clock.monotonicMs(),
    random: () => 0,
    onRetry: () => {},
    signal: new AbortController().signal,
    clock,
    logger: silentLogger,
    ...more,
  });
}

function failing(...kinds: readonly RingErrorKind[]): ScriptedNotifier {
  const notifier = new ScriptedNotifier();
  notifier.onRing = (_ring, before) => {
    const kind = kinds[before];
    if (kind) throw new RingError(kind, `no: ${kind}`);
    return { id: "r" };
  };
  return notifier;
}

/** Lets signatures, which come from another thread, arrive. */
async function untilRung(clock: FakeClock, notifier: ScriptedNotifier, times = 1): Promise<void> {
  while (notifier.rings.length < times) await clock.advance(0);
}

describe("a ring", () => {
  it("is signed, and the same on the wire as in the request", async () => {
    const clock = createFakeClock();
    const notifier = new ScriptedNotifier();
    await expect(ringing(clock, notifier)).resolves.toEqual({ id: "receipt-1" });
    const [seen] = notifier.rings;
    expect(seen?.to).toBe("push-token-1");
    expect(seen?.request).toMatchObject({ collapseKey: "ask_1", ttlMs: 60_000, approval: "ask" });
    expect(JSON.parse(seen?.request.body ?? "")).toEqual(seen?.request.ring);
    expect(seen && (await isRingFrom(seen.request.ring, [signer.key]))).toBe(true);
    expect(seen?.request.body).not.toContain("push-token-1");
  });

  it("leaves the mesh's name out when it does not fit otherwise", async () => {
    const notifier = new ScriptedNotifier();
    const join = { ...RING.join, token: "t".repeat(1_020) };
    await ringing(createFakeClock(), notifier, { ring: { ...RING, join, mesh: "名".repeat(80) } });
    const [seen] = notifier.rings;
    expect(seen?.request.ring).not.toHaveProperty("mesh");
    expect(utf8Length(seen?.request.body ?? "")).toBeLessThanOrEqual(MAX_RING_BYTES);
  });

  it("is not sent when it does not fit at all", async () => {
    const notifier = new ScriptedNotifier();
    const join = { ...RING.join, token: "t".repeat(1_020), params: { key: "k".repeat(500) } };
    await expect(ringing(createFakeClock(), notifier, { ring: { ...RING, join } })).rejects.toMatchObject({
      kind: "too_big",
    });
    expect(notifier.rings).toHaveLength(0);
  });

  it("is sent again after a passing trouble, twice at most, with the time that is left", async () => {
    const clock = createFakeClock();
    const notifier = failing("transient", "transient");
    const retries: string[] = [];
    const waiting = ringing(clock, notifier, { onRetry: ({ kind }) => retries.push(kind) });
    await untilRung(clock, notifier);
    await clock.advance(500);
    await clock.advance(1_000);
    await expect(waiting).resolves.toEqual({ id: "r" });
    expect(notifier.rings.map(({ request }) => request.ttlMs)).toEqual([60_000, 59_500, 58_500]);
    expect(retries).toEqual(["transient", "transient"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("fails after the third time", async () => {
    const clock = createFakeClock();
    const notifier = failing("transient", "transient", "transient");
    const failed = expect(ringing(clock, notifier)).rejects.toMatchObject({ kind: "transient" });
    await untilRung(clock, notifier);
    await clock.advance(5_000);
    await failed;
    expect(notifier.rings).toHaveLength(3);
  });

  it.each(["dead_token", "offline", "bad_credential", "quota", "bad_request", "too_big"] as const)(
    "is sent once when the answer is %s",
    async (kind) => {
      const notifier = failing(kind);
      await expect(ringing(createFakeClock(), notifier)).rejects.toMatchObject({ kind });
      expect(notifier.rings).toHaveLength(1);
    },
  );

  it("is sent once when the device could ring twice", async () => {
    const notifier = new ScriptedNotifier();
    notifier.onRing = () => {
      throw new RingError("transient", "lost", { mayHaveRung: true, isRepeatable: false });
    };
    await expect(ringing(createFakeClock(), notifier)).rejects.toMatchObject({ message: "lost" });
    expect(notifier.rings).toHaveLength(1);
  });

  it("does not wait longer than the device could still join", async () => {
    const notifier = new ScriptedNotifier();
    notifier.onRing = () => {
      throw new RingError("transient", "busy", { retryAfterMs: 61_000 });
    };
    await expect(ringing(createFakeClock(), notifier)).rejects.toMatchObject({ kind: "transient" });
    expect(notifier.rings).toHaveLength(1);
  });

  it("gives up a push service that does not answer, three times", async () => {
    const clock = createFakeClock();
    const notifier = new ScriptedNotifier();
    notifier.onRing = () => new Promise<never>(() => {});
    const failed = expect(ringing(clock, notifier)).rejects.toMatchObject({ name: "RingError", kind: "transient" });
    await untilRung(clock, notifier);
    await clock.advance(40_000);
    await failed;
    expect(notifier.rings).toHaveLength(3);
  });

  it("calls an adapter that breaks its contract a bad request", async () => {
    const notifier = new ScriptedNotifier();
    notifier.onRing = () => {
      throw new TypeError("undefined is not a function");
    };
    await expect(ringing(createFakeClock(), notifier)).rejects.toMatchObject({ kind: "bad_request" });
  });

  it("ends when the device has joined meanwhile", async () => {
    const clock = createFakeClock();
    const notifier = new ScriptedNotifier();
    notifier.onRing = () => new Promise<never>(() => {});
    const controller = new AbortController();
    const waiting = ringing(clock, notifier, { signal: controller.signal });
    await untilRung(clock, notifier);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ why: "aborted" });
    expect(clock.pendingTimers).toBe(0);
  });
});
