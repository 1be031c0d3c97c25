import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Secret } from "@leafmesh/protocol";

export interface ApiKeys {
  /** The name of the key that the request shows, the same at every start; `undefined` when it shows none that is known. */
  ownerOf(request: IncomingMessage): string | undefined;
}

/** Keys are compared as hashes in constant time, all of them whichever fits. */
export function createApiKeys(keys: readonly Secret[]): ApiKeys {
  const known = keys.map((key) => {
    const digest = sha256(key.reveal());
    return { digest, owner: `key_${digest.toString("base64url").slice(0, 12)}` };
  });
  return {
    ownerOf(request) {
      const shown = /^Bearer ([\x21-\x7e]{1,512})$/i.exec(request.headers.authorization ?? "")?.[1];
      const digest = sha256(shown ?? "");
      let owner: string | undefined;
      for (const key of known) {
        if (timingSafeEqual(key.digest, digest)) owner = key.owner;
      }
      return shown === undefined ? undefined : owner;
    },
  };
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
