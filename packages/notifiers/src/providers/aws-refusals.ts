/**
 * What Amazon's services say of an access key, under whichever of its names. Pure.
 * https://docs.aws.amazon.com/sns/latest/api/CommonErrors.html
 */
import type { RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

export interface AwsMeaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const refused = (message: string): AwsMeaning => ({ kind: "bad_credential", message });

const UNKNOWN_KEY = refused(
  "AWS does not know access_key_id: it was deleted or deactivated, is of another partition than region, or " +
    "session_token is not the one that came with it.",
);
const WRONG_SECRET = refused("AWS refused the signature: secret_access_key is not that of access_key_id.");
const CLOCK = refused("AWS calls the signature expired: set the clock of the machine that runs the mesh.");
const EXPIRED = refused("session_token has expired: enter new temporary keys, or those of a user, which last.");
const UNSIGNED = refused("AWS cannot read the signature: copy access_key_id and session_token again.");

const KEY_REFUSALS: Readonly<Record<string, AwsMeaning>> = {
  InvalidClientTokenId: UNKNOWN_KEY,
  UnrecognizedClient: UNKNOWN_KEY,
  InvalidSecurity: UNKNOWN_KEY,
  SignatureDoesNotMatch: WRONG_SECRET,
  InvalidSignature: WRONG_SECRET,
  ExpiredToken: EXPIRED,
  TokenRefreshRequired: EXPIRED,
  RequestExpired: CLOCK,
  RequestTimeTooSkewed: CLOCK,
  IncompleteSignature: UNSIGNED,
  MissingAuthenticationToken: UNSIGNED,
  OptInRequired: refused("The AWS account is not signed up for this service or this region: enable it in the console."),
};

/** Names come with and without this, by service. */
const bare = (code: string): string => code.replace(/(?:Exception|Error)$/, "");

/** The verdict on the key itself; `undefined` for everything else, a right that it lacks included. */
export function keyRefusal(code: string, said: string): AwsMeaning | undefined {
  const meaning = Object.hasOwn(KEY_REFUSALS, bare(code)) ? KEY_REFUSALS[bare(code)] : undefined;
  // A clock that is wrong comes under the name of a wrong signature.
  return meaning === WRONG_SECRET && /expired|not yet current/i.test(said) ? CLOCK : meaning;
}

/** What an answer in XML says went wrong. Neither may be shown: AWS quotes what it was sent. */
export function xmlError({ text }: VendorAnswer): { readonly code: string; readonly said: string } {
  const [, error = ""] = /<Error>([\s\S]{0,8000})<\/Error>/.exec(text) ?? [];
  const [, code = ""] = /<Code>([A-Za-z0-9.]{1,80})<\/Code>/.exec(error) ?? [];
  const [, said = ""] = /<Message>([^<]{0,4000})<\/Message>/.exec(error) ?? [];
  return { code: code.split(".").at(-1) ?? "", said };
}
