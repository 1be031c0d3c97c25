/** PEM fields of a record, looked at before any connection is made. Messages never quote what they judge. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import type { Secret } from "@leafmesh/protocol";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** What is wrong with one or more certificates in PEM, or `undefined`. */
export function certificateIssue(pem: string): string | undefined {
  const blocks = pem.match(CERTIFICATE);
  if (!blocks) return "must hold a certificate in PEM: -----BEGIN CERTIFICATE-----, base64, -----END CERTIFICATE-----";
  return blocks.every((block) => parseCertificate(block)) ? undefined : "holds a certificate that cannot be read";
}

/** What is wrong with a private key in PEM, or `undefined`. */
export function keyIssue(pem: Secret): string | undefined {
  const text = pem.reveal();
  if (/ENCRYPTED/.test(text))
    return "is protected by a passphrase; give the key without one (openssl pkey -in key.pem)";
  return parseKey(text) ? undefined : "must be a private key in PEM: -----BEGIN PRIVATE KEY-----, base64, -----END …";
}

/** Whether `key` is the private key of the first certificate. False as well when one of them cannot be read. */
export function belongTogether(certificates: string, key: Secret): boolean {
  const certificate = parseCertificate(certificates.match(CERTIFICATE)?.[0] ?? "");
  const privateKey = parseKey(key.reveal());
  return certificate !== undefined && privateKey !== undefined && certificate.checkPrivateKey(privateKey);
}

function parseCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function parseKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}
