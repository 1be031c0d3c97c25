/** The signing key of Apple's console, and the provider token that is made with it. */
import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { promisify } from "node:util";
import type { Secret } from "@leafmesh/protocol";

const signAsync = promisify(sign);

export interface ProviderToken {
  readonly jwt: string;
  readonly issuedAtMs: number;
}

export interface ProviderTokenClaims {
  readonly keyId: string;
  readonly teamId: string;
  readonly nowMs: number;
}

/** What is wrong with the content of a .p8 file, or `undefined`. Never quotes it. */
export function signingKeyIssue(pem: Secret): string | undefined {
  const read = readSigningKey(pem);
  return "issue" in read ? read.issue : undefined;
}

/**
 * A JWT that says who sends, signed with ES256 as Apple asks for it. Throws for a key that {@link signingKeyIssue} has
 * something against.
 *
 * https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
 */
export async function makeProviderToken(pem: Secret, claims: ProviderTokenClaims): Promise<ProviderToken> {
  const read = readSigningKey(pem);
  if ("issue" in read) throw new Error(`signing_key ${read.issue}`);
  const issuedAtSeconds = Math.floor(claims.nowMs / 1000);
  const signed = `${encoded({ alg: "ES256", kid: claims.keyId })}.${encoded({ iss: claims.teamId, iat: issuedAtSeconds })}`;
  const signature = await signAsync("sha256", Buffer.from(signed), { key: read.key, dsaEncoding: "ieee-p1363" });
  return { jwt: `${signed}.${signature.toString("base64url")}`, issuedAtMs: issuedAtSeconds * 1000 };
}

function readSigningKey(pem: Secret): { readonly key: KeyObject } | { readonly issue: string } {
  const text = pem.reveal();
  if (/-----BEGIN (CERTIFICATE|PUBLIC KEY)-----/.test(text)) {
    return { issue: "holds a certificate or a public key, and has to be the private key: the whole .p8 file" };
  }
  if (/ENCRYPTED/.test(text)) return { issue: "is protected by a passphrase; Apple's .p8 file has none" };
  if (/-----BEGIN[^\n]*\\n/.test(text)) {
    return {
      issue: "has its line breaks written as \\n; give it in a YAML block (signing_key: |) or in double quotes",
    };
  }
  const key = parsed(text);
  if (!key) {
    return {
      issue: "must be the whole .p8 file from Apple: -----BEGIN PRIVATE KEY-----, base64, -----END PRIVATE KEY-----",
    };
  }
  if (key.asymmetricKeyType !== "ec" || key.asymmetricKeyDetails?.namedCurve !== "prime256v1") {
    return { issue: "is a private key of another kind than Apple's, which are for ES256 (EC, P-256)" };
  }
  return { key };
}

function parsed(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}
