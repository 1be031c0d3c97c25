import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRoomCipher, NONCE_BYTES, webCipher } from "./room-cipher.ts";

const bytes = (length: { minLength: number; maxLength: number }) =>
  fc.uint8Array(length).map((array) => new Uint8Array(array));
const exactly = (length: number) => bytes({ minLength: length, maxLength: length });

describe("the cipher of a room", () => {
  it("is the same in Node and through WebCrypto", async () => {
    await fc.assert(
      fc.asyncProperty(
        exactly(32),
        exactly(NONCE_BYTES),
        bytes({ minLength: 0, maxLength: 60 }),
        bytes({ minLength: 0, maxLength: 400 }),
        async (key, nonce, data, plain) => {
          const [node, web] = [await createRoomCipher(key), await webCipher(key)];
          const sealed = await node.encrypt(nonce, data, plain);
          expect(await web.encrypt(nonce, data, plain)).toEqual(sealed);
          expect(new Uint8Array((await web.decrypt(nonce, data, sealed)) ?? [])).toEqual(plain);
          expect(new Uint8Array((await node.decrypt(nonce, data, sealed)) ?? [])).toEqual(plain);
        },
      ),
      { numRuns: 50 },
    );
  });

  it.each([
    ["Node", createRoomCipher],
    ["WebCrypto", webCipher],
  ] as const)("refuses in %s what was changed anywhere", async (_where, create) => {
    const cipher = await create(new Uint8Array(32).fill(7));
    const nonce = new Uint8Array(NONCE_BYTES).fill(1);
    const data = new Uint8Array([1, 2, 3]);
    const sealed = await cipher.encrypt(nonce, data, new Uint8Array([9, 9, 9]));
    const changed = (array: Uint8Array): Uint8Array<ArrayBuffer> =>
      Uint8Array.from(array, (byte, at) => (at === 0 ? byte ^ 1 : byte));
    expect(await cipher.decrypt(nonce, data, changed(sealed))).toBeUndefined();
    expect(await cipher.decrypt(changed(nonce), data, sealed)).toBeUndefined();
    expect(await cipher.decrypt(nonce, changed(data), sealed)).toBeUndefined();
    expect(await cipher.decrypt(nonce, data, sealed.subarray(0, sealed.byteLength - 1))).toBeUndefined();
    expect(await cipher.decrypt(nonce, data, sealed)).toBeDefined();
  });
});
