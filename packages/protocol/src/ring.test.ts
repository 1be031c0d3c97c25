import { createHash, KeyObject, sign } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createRingSigner, isRingFrom, type Ring, ringSchema } from "./ring.ts";

const unsigned: Omit<Ring, "kid" | "sig"> = {
  v: 1,
  ask: "ask_AAAAAAAAAAAAAAAAAAAAAA",
  device: "phone-7",
  approval: "ask",
  mesh: "phone-support",
  iat: 1_800_000_000,
  exp: 1_800_000_060,
  join: {
    provider: "leafmesh",
    url: "wss://mesh.example/v1/connect",
    room: "r1",
    token: "t",
    params: { b: "2", a: "1" },
  },
};

async function newSigner() {
  return createRingSigner((await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair);
}

describe("a signed ring", () => {
  it("is recognised by the published key, whatever the order of its fields", async () => {
    const signer = await newSigner();
    const ring = await signer.sign(unsigned);
    const reordered = JSON.parse(JSON.stringify({ ...ring, join: { token: "t", ...ring.join } })) as Ring;
    const backwards = Object.fromEntries(Object.entries(reordered).reverse()) as Ring;
    expect(await isRingFrom(ring, [signer.key])).toBe(true);
    expect(await isRingFrom(backwards, [signer.key])).toBe(true);
  });

  it("is the same whether its signer waits for WebCrypto or not", async () => {
    const pair = (await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"])) as CryptoKeyPair;
    const privateKey = KeyObject.from(pair.privateKey);
    const publicKey = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
    const atOnce = await createRingSigner({
      publicKey,
      publicKeyHash: createHash("sha256").update(publicKey).digest(),
      signNow: (bytes) => sign(null, bytes, privateKey),
    });
    const ring = await atOnce.sign(unsigned);
    expect(ring).toEqual(await (await createRingSigner(pair)).sign(unsigned));
    expect(await isRingFrom(ring, [atOnce.key])).toBe(true);
  });

  it("survives the wire", async () => {
    const signer = await newSigner();
    const ring = ringSchema.parse(JSON.parse(JSON.stringify(await signer.sign(unsigned))));
    expect(await isRingFrom(ring, [signer.key])).toBe(true);
  });

  it.each([
    ["device", { device: "phone-8" }],
    ["approval", { approval: "silent" as const }],
    ["expiry", { exp: unsigned.exp + 1 }],
    ["room", { join: { ...unsigned.join, room: "r2" } }],
    ["address", { join: { ...unsigned.join, url: "wss://evil.example/v1/connect" } }],
    ["no signature", { sig: undefined }],
    ["an empty signature", { sig: "" }],
    ["a signature that is not base64", { sig: "***" }],
    ["another key's name", { kid: "other" }],
  ])("is not recognised with a changed %s", async (_, change) => {
    const signer = await newSigner();
    const forged = { ...(await signer.sign(unsigned)), ...change } as Ring;
    expect(await isRingFrom(forged, [signer.key])).toBe(false);
  });

  it("is not recognised by another mesh's key under the same name", async () => {
    const signer = await newSigner();
    const other = await newSigner();
    const ring = await signer.sign(unsigned);
    expect(await isRingFrom(ring, [{ ...other.key, kid: signer.key.kid }])).toBe(false);
    expect(await isRingFrom(ring, [])).toBe(false);
  });

  it("is judged by what a key says now, not by what it said when it was first used", async () => {
    const signer = await newSigner();
    const other = await newSigner();
    const ring = await signer.sign(unsigned);
    const key = { ...signer.key };
    expect(await isRingFrom(ring, [key])).toBe(true);
    expect(await isRingFrom(ring, [key])).toBe(true);
    key.x = other.key.x;
    expect(await isRingFrom(ring, [key])).toBe(false);
    key.x = "not a key";
    expect(await isRingFrom(ring, [key])).toBe(false);
    expect(await isRingFrom(ring, [key])).toBe(false);
  });
});
