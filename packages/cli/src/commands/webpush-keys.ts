/** `leafmesh keys webpush`: a new VAPID key pair, with which pages subscribe and the mesh signs its web pushes. */
import { createECDH } from "node:crypto";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { palette, writeJson, writeLine } from "../output.ts";

export interface WebpushKeysOptions {
  readonly json?: boolean | undefined;
}

const PRIVATE_KEY_BYTES = 32;

/** The private key is new each time and kept nowhere: it is on standard output alone. https://www.rfc-editor.org/rfc/rfc8292 */
export function webpushKeys(options: WebpushKeysOptions, context: CliContext): ExitCode {
  const { publicKey, privateKey } = newPair();
  if (options.json) {
    writeJson(context.stdout, { public_key: publicKey, private_key: privateKey });
    return EXIT.ok;
  }
  const colors = palette(context);
  writeLine(
    context.stdout,
    `${colors.bold("Public key")}, for the page: pushManager.subscribe({ applicationServerKey })`,
  );
  writeLine(context.stdout, `  ${publicKey}`);
  writeLine(context.stdout, `${colors.bold("Private key")}, a secret of the mesh:`);
  writeLine(context.stdout, `  VAPID_PRIVATE_KEY=${privateKey}`);
  writeLine(context.stdout);
  writeLine(context.stdout, "connections:");
  writeLine(context.stdout, "  browsers:");
  writeLine(context.stdout, "    provider: webpush");
  writeLine(context.stdout, `    vapid_private_key: \${VAPID_PRIVATE_KEY}`);
  writeLine(context.stdout, "    contact: mailto:you@example.com");
  writeLine(context.stderr, "Keep both: after a change of the key every page has to subscribe again.");
  return EXIT.ok;
}

/** In base64url: the point without compression, and the number with its leading zeros. */
function newPair(): { readonly publicKey: string; readonly privateKey: string } {
  const pair = createECDH("prime256v1");
  pair.generateKeys();
  const secret = Buffer.concat([Buffer.alloc(PRIVATE_KEY_BYTES), pair.getPrivateKey()]).subarray(-PRIVATE_KEY_BYTES);
  return { publicKey: pair.getPublicKey("base64url"), privateKey: secret.toString("base64url") };
}
