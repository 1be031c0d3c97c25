import { playBrowser } from "@leafmesh/testkit/notifiers";
import { describe, expect, it } from "vitest";
import { encryptPush, MAX_PLAINTEXT_BYTES } from "./webpush-encryption.ts";
import { readSubscription } from "./webpush-subscription.ts";

const bytes = (text: string): Buffer => Buffer.from(text, "base64url");

/** https://www.rfc-editor.org/rfc/rfc8291#appendix-A */
const example = {
  plaintext: "When I grow up, I want to be a watermelon",
  senderKey: "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
  browserKey: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
  salt: "DGv6ra1nlYgDCS1FRnbzlw",
  auth: "BTBZMqHH6r4Tts7J_aSIgg",
  body:
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_" +
    "yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
};

describe("the encryption of a push message", () => {
  it("is that of the example in RFC 8291, byte for byte", () => {
    const to = { publicKey: bytes(example.browserKey), authSecret: bytes(example.auth) };
    const chance = { salt: bytes(example.salt), senderKey: bytes(example.senderKey) };
    const body = encryptPush(Buffer.from(example.plaintext), to, chance);
    expect(body.toString("base64url")).toBe(example.body);
  });

  it("differs each time, and is read by the browser alone", () => {
    const endpoint = "https://web.push.apple.com/phone";
    const [browser, another] = [1, 2].map(() => playBrowser({ endpoint, applicationServerKey: "" }));
    const read = readSubscription(browser?.subscription ?? "");
    if ("issue" in read) return expect.fail(read.issue);
    const text = "🌿".repeat(100);
    const bodies = [1, 2].map(() => encryptPush(Buffer.from(text), read.subscription));
    expect(bodies.map((body) => browser?.read(body))).toEqual([text, text]);
    // Salt and sender key.
    expect(bodies[0]?.subarray(0, 16)).not.toEqual(bodies[1]?.subarray(0, 16));
    expect(bodies[0]?.subarray(21, 86)).not.toEqual(bodies[1]?.subarray(21, 86));
    expect(() => another?.read(bodies[0] ?? Buffer.alloc(0))).toThrow();
  });

  it("fills what a push service has to take, and no more", () => {
    const to = { publicKey: bytes(example.browserKey), authSecret: bytes(example.auth) };
    expect(encryptPush(Buffer.alloc(MAX_PLAINTEXT_BYTES), to)).toHaveLength(4096);
    expect(() => encryptPush(Buffer.alloc(MAX_PLAINTEXT_BYTES + 1), to)).toThrow(/3993/);
  });
});
