import { MAX_RING_BYTES, type Ring } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { newSigner, ringFor } from "../testing/rings.ts";
import { admitRing, type GateRules } from "./ring-gate.ts";

const clock = createFakeClock();
const loopbackOnly: GateRules = { deviceId: "phone-7", clock };
const ring = ringFor(clock.nowMs());
const elsewhere = { ...ring, join: { ...ring.join, url: "wss://rooms.example.com/v1/connect" } };

async function fault(input: unknown, rules: GateRules = loopbackOnly): Promise<string> {
  const verdict = await admitRing(input, rules);
  return verdict.ok ? "none" : verdict.fault;
}

async function signedRules() {
  const signer = await newSigner();
  const rules: GateRules = { ...loopbackOnly, meshKeys: async () => [signer.key] };
  return { signer, rules };
}

describe("the form of a ring", () => {
  it("may be JSON text or an object", async () => {
    expect(await fault(ring)).toBe("none");
    expect(await fault(JSON.stringify(ring))).toBe("none");
  });

  it.each([
    ["no JSON", "hello"],
    ["nothing", undefined],
    ["a number", 7],
    ["a later version", { ...ring, v: 2 }],
    ["no join info", { ...ring, join: undefined }],
    ["an ask id that is none", { ...ring, ask: "../etc" }],
    ["a time that is none", { ...ring, exp: "tomorrow" }],
  ])("is refused when it is %s", async (_what, input) => expect(await fault(input)).toBe("malformed"));

  it("is refused when it cannot be JSON", async () => {
    const loop: Record<string, unknown> = { ...ring };
    loop.loop = loop;
    expect(await fault(loop)).toBe("malformed");
  });

  it("holds at most 1.5 KB", async () => {
    const padding = (bytes: number): object => {
      const base = { ...ring, padding: "" };
      return { ...base, padding: "x".repeat(bytes - JSON.stringify(base).length) };
    };
    expect(await fault(padding(MAX_RING_BYTES))).toBe("none");
    expect(await fault(padding(MAX_RING_BYTES + 1))).toBe("too_large");
    expect(await fault(JSON.stringify(padding(MAX_RING_BYTES + 1)))).toBe("too_large");
  });
});

describe("whom and when a ring is for", () => {
  it("is this device alone", async () => {
    expect(await fault({ ...ring, device: "phone-8" })).toBe("other_device");
  });

  it("is over at its expiry, give or take a minute of clock skew", async () => {
    const nowSeconds = Math.floor(clock.nowMs() / 1000);
    expect(await fault({ ...ring, iat: nowSeconds - 120, exp: nowSeconds - 59 })).toBe("none");
    expect(await fault({ ...ring, iat: nowSeconds - 120, exp: nowSeconds - 61 })).toBe("expired");
  });

  it("is not believed when its times cannot be", async () => {
    const nowSeconds = Math.floor(clock.nowMs() / 1000);
    expect(await fault({ ...ring, iat: nowSeconds + 59, exp: nowSeconds + 119 })).toBe("none");
    expect(await fault({ ...ring, iat: nowSeconds + 61, exp: nowSeconds + 121 })).toBe("bad_times");
    expect(await fault({ ...ring, exp: ring.iat })).toBe("bad_times");
    expect(await fault({ ...ring, exp: nowSeconds + 2 * 86_400 })).toBe("bad_times");
  });
});

describe("whose ring it is", () => {
  it("must be this machine's when no keys are set", async () => {
    expect(await fault(ring)).toBe("none");
    expect(await fault(elsewhere)).toBe("unsigned");
    expect(await fault({ ...ring, join: { provider: "pubnub", room: "room-1" } })).toBe("unsigned");
  });

  it("is the mesh's when a known key signed it", async () => {
    const { signer, rules } = await signedRules();
    const signed = await signer.sign(elsewhere);
    expect(await fault(signed, rules)).toBe("none");
    expect(await fault(JSON.stringify(signed), rules)).toBe("none");
  });

  it("is nobody's without a signature, even on this machine, once keys are set", async () => {
    const { rules } = await signedRules();
    expect(await fault(ring, rules)).toBe("unsigned");
  });

  it("is a forger's when another key signed it", async () => {
    const { signer, rules } = await signedRules();
    const forger = await newSigner();
    const forged = await forger.sign(elsewhere);
    expect(await fault(forged, rules)).toBe("bad_signature");
    expect(await fault({ ...forged, kid: signer.key.kid }, rules)).toBe("bad_signature");
  });

  it.each<[string, (signed: Ring) => unknown]>([
    ["its device", (signed) => ({ ...signed, ask: "ask_2" })],
    ["its approval", (signed) => ({ ...signed, approval: "ask" })],
    ["its expiry", (signed) => ({ ...signed, exp: signed.exp + 1 })],
    ["its room", (signed) => ({ ...signed, join: { ...signed.join, url: "wss://evil.example.com/" } })],
    ["an added field", (signed) => ({ ...signed, extra: true })],
    ["an added field inside join", (signed) => ({ ...signed, join: { ...signed.join, extra: true } })],
    ["its signature's form", (signed) => ({ ...signed, sig: "***" })],
  ])("is a forger's when %s was changed on the way", async (_what, change) => {
    const { signer, rules } = await signedRules();
    expect(await fault(change(await signer.sign(elsewhere)), rules)).toBe("bad_signature");
  });

  it("is still the mesh's when a later version of it signed fields that are unknown here", async () => {
    const { signer, rules } = await signedRules();
    const later = { ...elsewhere, join: { ...elsewhere.join, region: "eu" }, urgency: "high" };
    expect(await fault(await signer.sign(later), rules)).toBe("none");
  });

  it("can be judged by the runtime's own check", async () => {
    const rules: GateRules = {
      ...loopbackOnly,
      meshKeys: async () => [],
      verifyRing: async ({ sig }) => sig === "good",
    };
    expect(await fault({ ...elsewhere, sig: "good" }, rules)).toBe("none");
    expect(await fault({ ...elsewhere, sig: "bad" }, rules)).toBe("bad_signature");
  });

  it("is nobody's while the keys cannot be had", async () => {
    const { signer } = await signedRules();
    const rules: GateRules = { ...loopbackOnly, meshKeys: () => Promise.reject(new Error("offline")) };
    expect(await fault(await signer.sign(elsewhere), rules)).toBe("keys_unavailable");
  });
});
