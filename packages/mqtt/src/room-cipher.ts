/**
 * AES-256-GCM wherever the kit runs. Browsers have it as WebCrypto. Node has WebCrypto too, but sends each call through
 * its thread pool, which takes a task several times longer than the cipher; there the same cipher is called directly.
 */
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;

type Bytes = Uint8Array<ArrayBuffer>;

export interface RoomCipher {
  /** Ciphertext and tag. */
  encrypt(nonce: Bytes, additionalData: Bytes, plain: Bytes): Promise<Uint8Array>;
  /** `undefined` when it was not made with this key, nonce and data. */
  decrypt(nonce: Bytes, additionalData: Bytes, sealed: Uint8Array): Promise<Uint8Array | undefined>;
}

/** `key` has 32 bytes. */
export async function createRoomCipher(key: Bytes): Promise<RoomCipher> {
  const { process } = globalThis as { process?: { getBuiltinModule?: typeof globalThis.process.getBuiltinModule } };
  const nodeCrypto = process?.getBuiltinModule?.("node:crypto");
  return nodeCrypto ? nodeCipher(nodeCrypto, key) : await webCipher(key);
}

type NodeCrypto = NonNullable<ReturnType<typeof globalThis.process.getBuiltinModule<"node:crypto">>>;

function nodeCipher({ createCipheriv, createDecipheriv, createSecretKey }: NodeCrypto, bytes: Bytes): RoomCipher {
  // With the bytes themselves Node would find out on each call, through an exception, that they are not a key object.
  const key = createSecretKey(bytes);
  return {
    async encrypt(nonce, additionalData, plain) {
      const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES }).setAAD(additionalData);
      const sealed = new Uint8Array(plain.byteLength + TAG_BYTES);
      sealed.set(cipher.update(plain));
      cipher.final();
      sealed.set(cipher.getAuthTag(), plain.byteLength);
      return sealed;
    },
    async decrypt(nonce, additionalData, sealed) {
      const tagAt = sealed.byteLength - TAG_BYTES;
      const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES }).setAAD(additionalData);
      decipher.setAuthTag(sealed.subarray(tagAt));
      const plain = decipher.update(sealed.subarray(0, tagAt));
      try {
        decipher.final();
        return plain;
      } catch {
        return undefined;
      }
    },
  };
}

/** Exported for the test that holds both against each other. */
export async function webCipher(key: Bytes): Promise<RoomCipher> {
  const imported = await crypto.subtle.importKey("raw", key, "AES-GCM", false, ["encrypt", "decrypt"]);
  const gcm = (iv: Bytes, additionalData: Bytes): AesGcmParams => ({ name: "AES-GCM", iv, additionalData });
  return {
    async encrypt(nonce, additionalData, plain) {
      return new Uint8Array(await crypto.subtle.encrypt(gcm(nonce, additionalData), imported, plain));
    },
    async decrypt(nonce, additionalData, sealed) {
      try {
        const plain = await crypto.subtle.decrypt(gcm(nonce, additionalData), imported, new Uint8Array(sealed));
        return new Uint8Array(plain);
      } catch {
        return undefined;
      }
    },
  };
}
