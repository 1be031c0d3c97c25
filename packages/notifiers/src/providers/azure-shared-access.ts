/**
 * What Azure's services share: connection strings, and the signatures that are made with what is in them. Pure.
 * https://learn.microsoft.com/azure/service-bus-messaging/service-bus-sas
 */
import { createHmac } from "node:crypto";

/** Names and values of a connection string's parts; a value may hold `=`, as keys do. */
export type ConnectionParts = ReadonlyMap<string, string>;

/** A sentence of what is wrong, without anything of the string, which holds a key. */
export interface ConnectionIssue {
  readonly issue: string;
}

/**
 * Takes a connection string apart: `Name=value;Name=value`. Names are kept as they are written. What is not of that
 * form, or lacks one of `required`, is an issue that says which part it is.
 */
export function readConnectionString(
  text: string,
  required: readonly string[],
): ConnectionIssue | { readonly parts: ConnectionParts } {
  const parts = new Map<string, string>();
  for (const [index, part] of text.trim().split(";").entries()) {
    if (part.trim() === "") continue;
    const at = part.indexOf("=");
    const name = part.slice(0, Math.max(at, 0)).trim();
    if (!/^[A-Za-z]{1,40}$/.test(name)) {
      return { issue: `part ${index + 1} is not Name=value; copy the whole connection string from the portal` };
    }
    if (parts.has(name)) return { issue: `has ${name} twice; copy the connection string from the portal again` };
    parts.set(name, part.slice(at + 1).trim());
  }
  const missing = required.filter((name) => !parts.get(name));
  if (missing.length === 0) return { parts };
  return { issue: `has no ${missing.join(" and no ")}; copy the whole connection string from the portal` };
}

/** Who signs, and with what. */
export interface SharedAccessPolicy {
  readonly name: string;
  /** What the HMAC is keyed with: some services take the key's text, some what it is the base64 of. */
  readonly key: Uint8Array;
}

/**
 * The `authorization` header that gives the policy's rights on `resource` and everything below it, until `endsAtMs`.
 * Making one asks nobody, so there is none to keep: each request is signed anew.
 */
export function signSharedAccess(resource: string, policy: SharedAccessPolicy, endsAtMs: number): string {
  const signed = encodeURIComponent(resource.toLowerCase());
  const endsAt = Math.ceil(endsAtMs / 1000);
  const signature = createHmac("sha256", policy.key).update(`${signed}\n${endsAt}`).digest("base64");
  const fields = [`sr=${signed}`, `sig=${encodeURIComponent(signature)}`, `se=${endsAt}`];
  return `SharedAccessSignature ${[...fields, `skn=${encodeURIComponent(policy.name)}`].join("&")}`;
}
