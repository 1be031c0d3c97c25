/** The service account's key of the Google Cloud console, and the assertion that is signed with it. */
import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { promisify } from "node:util";
import type { Secret } from "@leafmesh/protocol";
import * as z from "zod";

const signAsync = promisify(sign);

/** Where access tokens are had. The key's own `token_uri` is not used: an address in a file is not to be trusted. */
export const TOKEN_URL = "https://oauth2.googleapis.com/token";
const SCOPE = "https://www.googleapis.com/auth/firebase.messaging";
const ASSERTION_LIFETIME_SECONDS = 3600;

/** https://cloud.google.com/resource-manager/docs/creating-managing-projects */
export const PROJECT_ID = /^[a-z][a-z0-9-]{4,28}[a-z0-9]$/;

export interface ServiceAccount {
  readonly email: string;
  readonly keyId: string;
  readonly key: KeyObject;
  readonly projectId: string | undefined;
}

const accountSchema = z.looseObject({
  type: z.string(),
  client_email: z.string().regex(/^[^\s@]+@[^\s@]+$/),
  private_key_id: z.string().regex(/^[\x21-\x7e]{1,200}$/),
  private_key: z.string(),
  project_id: z.string().optional(),
});

/** What is wrong with the content of the key's file, or the account in it. Never quotes it. */
export function readServiceAccount(text: Secret): ServiceAccount | { readonly issue: string } {
  const json = parsed(text.reveal());
  if (json === undefined) {
    return { issue: "must be the whole JSON file of the service account's key" };
  }
  const { type } = z.looseObject({ type: z.unknown() }).safeParse(json).data ?? {};
  if (type !== "service_account") {
    return { issue: 'must be the key of a service account: a JSON file with "type": "service_account"' };
  }
  const { data: account, error } = accountSchema.safeParse(json);
  if (!account) {
    const field = String(error.issues[0]?.path[0]);
    return { issue: `lacks a valid ${field}; download the key again and give the whole file` };
  }
  const key = privateKey(account.private_key);
  if (key?.asymmetricKeyType !== "rsa") {
    return { issue: "has no RSA key under private_key; download the key again and give the whole file" };
  }
  return { email: account.client_email, keyId: account.private_key_id, key, projectId: account.project_id };
}

/** The body of the request for an access token. https://developers.google.com/identity/protocols/oauth2/service-account */
export async function tokenRequest({ email, keyId, key }: ServiceAccount, nowMs: number): Promise<string> {
  const iat = Math.floor(nowMs / 1000);
  const claims = { iss: email, scope: SCOPE, aud: TOKEN_URL, iat, exp: iat + ASSERTION_LIFETIME_SECONDS };
  const signed = `${encoded({ alg: "RS256", typ: "JWT", kid: keyId })}.${encoded(claims)}`;
  const signature = await signAsync("sha256", Buffer.from(signed), key);
  return new URLSearchParams({
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: `${signed}.${signature.toString("base64url")}`,
  }).toString();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function privateKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}
