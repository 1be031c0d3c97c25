/** firebase-admin, from the folder of the peers, as a sender. Its access token is made here, with the one scope that rings need. */
import { sign } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";

/** What is used of it; it is not installed where types are checked. */
interface Messaging {
  send(message: object): Promise<string>;
}

const TOKEN_URL = "https://oauth2.googleapis.com/token";
const SCOPE = "https://www.googleapis.com/auth/firebase.messaging";

export function firebaseMessaging(serviceAccount: string): Messaging {
  const load = createRequire(join(import.meta.dirname, "../peers/package.json"));
  const { initializeApp } = load("firebase-admin/app");
  const { getMessaging } = load("firebase-admin/messaging");
  const account: Account = JSON.parse(serviceAccount);
  const credential = { getAccessToken: () => accessToken(account) };
  return getMessaging(initializeApp({ credential, projectId: account.project_id }));
}

interface Account {
  readonly project_id: string;
  readonly private_key_id: string;
  readonly private_key: string;
  readonly client_email: string;
}

async function accessToken(account: Account): Promise<{ access_token: string; expires_in: number }> {
  const iat = Math.floor(Date.now() / 1000);
  const claims = { iss: account.client_email, scope: SCOPE, aud: TOKEN_URL, iat, exp: iat + 3600 };
  const signed = [{ alg: "RS256", typ: "JWT", kid: account.private_key_id }, claims].map(encoded).join(".");
  const signature = sign("sha256", Buffer.from(signed), account.private_key).toString("base64url");
  const grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer";
  const body = new URLSearchParams({ grant_type, assertion: `${signed}.${signature}` }).toString();
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const answer = await fetch(TOKEN_URL, { method: "POST", headers, body });
  if (!answer.ok) throw new Error(`no access token: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as { access_token: string; expires_in: number };
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString("base64url");
}
