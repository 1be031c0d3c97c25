import { createRingSigner, type Ring, type RingSigner } from "@leafmesh/protocol";

/** A ring as a mesh would write it at `nowMs`, living for a minute; `changes` replace fields. */
export function ringFor(nowMs: number, changes: Partial<Ring> = {}): Ring {
  const iat = Math.floor(nowMs / 1000);
  return {
    v: 1,
    ask: "ask_1",
    device: "phone-7",
    approval: "silent",
    mesh: "support",
    iat,
    exp: iat + 60,
    join: { provider: "leafmesh", url: "ws://127.0.0.1:1/v1/connect", room: "room-1", token: "device-token" },
    ...changes,
  };
}

export async function newSigner(): Promise<RingSigner> {
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  if (!("publicKey" in pair)) throw new Error("Ed25519 keys come in pairs");
  return createRingSigner(pair);
}
