import { fromBase64Url } from "@leafmesh/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createOpener, createSealer, FRAME_OVERHEAD_BYTES, importRoomKey, newRoomKey } from "./room-codec.ts";

const TOPIC = "leafmesh/room/r1/d/phone-7/down";

async function pair(topic = TOPIC, heard = topic) {
  const key = await importRoomKey(newRoomKey());
  return { key, sealer: createSealer(key, topic), opener: createOpener(key, heard) };
}

describe("a sealed message", () => {
  it("opens to what was sealed, whatever it was, 29 bytes longer", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: "grapheme", maxLength: 300 }), async (text) => {
        const { sealer, opener } = await pair();
        const frame = await sealer.seal(text);
        expect(frame.byteLength).toBe(new TextEncoder().encode(text).byteLength + 29);
        expect(FRAME_OVERHEAD_BYTES).toBe(29);
        expect(await opener.open(frame)).toEqual({ ok: true, text });
      }),
      { numRuns: 50 },
    );
  });

  it("shows nothing of the text and is different every time", async () => {
    const { sealer } = await pair();
    const frames = [await sealer.seal("unlock the door"), await sealer.seal("unlock the door")];
    expect(Buffer.from(frames[0] ?? []).includes("unlock")).toBe(false);
    expect(frames[0]).not.toEqual(frames[1]);
  });

  it("opens once: a repeat and anything older are dropped", async () => {
    const { sealer, opener } = await pair();
    const [first, second, third] = [await sealer.seal("1"), await sealer.seal("2"), await sealer.seal("3")];
    expect(await opener.open(first)).toEqual({ ok: true, text: "1" });
    expect(await opener.open(first)).toEqual({ ok: false, why: "repeated" });
    expect(await opener.open(third)).toEqual({ ok: true, text: "3" });
    expect(await opener.open(second)).toEqual({ ok: false, why: "repeated" });
  });

  it.each([
    ["reflected to the other direction", "leafmesh/room/r1/d/phone-7/up"],
    ["carried into another room", "leafmesh/room/r2/d/phone-7/down"],
    ["carried to another device", "leafmesh/room/r1/d/phone-8/down"],
    ["carried under another prefix", "other/room/r1/d/phone-7/down"],
  ])("does not open when it is %s", async (_case, heard) => {
    const { sealer, opener } = await pair(TOPIC, heard);
    expect(await opener.open(await sealer.seal("x"))).toEqual({ ok: false, why: "forged" });
  });

  it("does not open under another key, and a forgery does not use up the number", async () => {
    const { sealer, opener } = await pair();
    const forged = await createSealer(await importRoomKey(newRoomKey()), TOPIC).seal("x");
    expect(await opener.open(forged)).toEqual({ ok: false, why: "forged" });
    expect(await opener.open(await sealer.seal("y"))).toEqual({ ok: true, text: "y" });
  });

  it("does not open with any single bit changed", async () => {
    const { sealer, opener } = await pair();
    const frame = await sealer.seal("the door is locked");
    for (let byte = 0; byte < frame.byteLength; byte++) {
      const changed = Uint8Array.from(frame);
      changed[byte] = (changed[byte] ?? 0) ^ (1 << (byte % 8));
      expect((await opener.open(changed)).ok).toBe(false);
    }
    expect(await opener.open(frame)).toEqual({ ok: true, text: "the door is locked" });
  });

  it.each([[0], [1], [28]])("of %i bytes is malformed", async (length) => {
    const { opener } = await pair();
    expect(await opener.open(new Uint8Array(length).fill(1))).toEqual({ ok: false, why: "malformed" });
  });
});

describe("a sender that starts anew", () => {
  it("is heard, and the one before it no more", async () => {
    const { key, sealer, opener } = await pair();
    const early = await sealer.seal("before the restart");
    const late = await sealer.seal("held back by the broker");
    expect((await opener.open(early)).ok).toBe(true);
    expect((await opener.open(await createSealer(key, TOPIC).seal("after the restart"))).ok).toBe(true);
    expect(await opener.open(late)).toEqual({ ok: false, why: "repeated" });
  });

  it("is one of at most eight", async () => {
    const { key, opener } = await pair();
    const openAnew = async () => await opener.open(await createSealer(key, TOPIC).seal("x"));
    for (let sender = 0; sender < 8; sender++) expect((await openAnew()).ok).toBe(true);
    expect((await openAnew()).ok).toBe(false);
  });
});

describe("a room key", () => {
  it("is 32 random bytes in URL-safe base64", () => {
    const [one, other] = [newRoomKey(), newRoomKey()];
    expect(one).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(fromBase64Url(one).byteLength).toBe(32);
    expect(one).not.toBe(other);
  });

  it.each(["", "AAAA", "not base64 at all!"])("is not %j", async (text) => {
    await expect(importRoomKey(text)).rejects.toThrow(TypeError);
  });
});
