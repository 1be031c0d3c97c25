/** What the answers of Windows' push service, and of Entra before it, mean. Pure. */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { MintedCredential, VendorAnswer } from "../http/index.ts";
import { windowsPushRefusal, windowsPushStatus } from "./windows-push-status.ts";

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const refused = (message: string): Meaning => ({ kind: "bad_credential", message });

/** https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/push-request-response-headers */
const BY_STATUS: Readonly<Record<number, Meaning>> = {
  400: {
    kind: "bad_request",
    message: "Windows does not understand the notification: a header is wrong. This is a fault of LeafMesh's.",
  },
  401: refused("Windows refuses the access token: make a new `client_secret`, and look at `client_id`."),
  403: refused(
    "This application may not send to the app's channel: `client_id` has to be the one that the app made its channel " +
      "with, and Microsoft must have mapped it to the app's package family name.",
  ),
  404: { kind: "dead_token", message: "Windows does not know the channel." },
  405: { kind: "bad_request", message: "Windows does not take this method. This is a fault of LeafMesh's." },
  406: { kind: "quota", message: "Windows throttles this sender: it sent too many notifications in a short time." },
  410: { kind: "dead_token", message: "The channel has expired: the app has to ask for a new one at its next start." },
  413: { kind: "too_big", message: "The notification is larger than the 5000 bytes that Windows takes." },
  429: { kind: "quota", message: "Windows throttles this sender: it sent too many notifications in a short time." },
  500: { kind: "transient", message: "Windows' push service had an internal error." },
  503: { kind: "transient", message: "Windows' push service is not available." },
};
const BLOCKED = refused("Windows has blocked this sender, because its notifications were reported or misused.");

/** The id of a notification that Windows took. Its 200 alone says nothing: only the status beside it does. */
export function acceptedId(answer: VendorAnswer): string | undefined {
  if (answer.status !== 200) throw wnsRefusal(answer);
  const notTaken = windowsPushRefusal(answer);
  if (notTaken) throw notTaken;
  if (windowsPushStatus(answer) !== "received") throw wnsRefusal(answer);
  const id = answer.headers["x-wns-msg-id"];
  return typeof id === "string" && /^[0-9A-Za-z-]{1,64}$/.test(id) ? id : undefined;
}

function wnsRefusal({ status, headers, retryAfterMs }: VendorAnswer): RingError {
  const isBlocked = status === 410 && /blocked/i.test(String(headers["x-wns-error-description"]));
  const { kind, message } = isBlocked ? BLOCKED : (BY_STATUS[status] ?? undocumented("Windows", status));
  // A page with the status 200 comes from something between the mesh and Windows.
  const mayHaveRung = status >= 200 && status < 300;
  return new RingError(kind, message, { code: String(status), retryAfterMs, mayHaveRung });
}

function undocumented(who: string, status: number): Meaning {
  const message = `${who} answered with the status ${status}, and nothing that it documents.`;
  if (status >= 300 && status < 400) {
    return { kind: "transient", message: `${who} sends the request elsewhere, which is not followed.` };
  }
  return { kind: status >= 500 || status < 300 ? "transient" : "bad_request", message };
}

/** Entra writes the number as text at times. */
const tokenSchema = z.object({ access_token: z.string().min(1), expires_in: z.coerce.number().positive() });
const entraSchema = z.object({
  error: z.string(),
  error_codes: z.array(z.int().positive()).catch([]),
});

/** https://learn.microsoft.com/entra/identity-platform/reference-error-codes */
const BY_ENTRA_CODE: Readonly<Record<number, string>> = {
  7000215: "Entra refuses `client_secret`: it must be the secret's value, not its ID.",
  7000222: "`client_secret` has expired: make a new one under Certificates & secrets.",
  7000218: "Entra found no `client_secret` in the request.",
  700016: "Entra knows no application with this `client_id` in this tenant.",
  90002: "Entra knows no tenant with this `tenant_id`.",
  900023: "`tenant_id` is neither the ID of a tenant nor one of its domains.",
  7000112: "The application of `client_id` is disabled in Entra.",
  500011:
    "Entra cannot find Windows' push service in this tenant: register the application for accounts in any directory.",
};

/** An access token, or why there is none. Throws {@link RingError}. */
export function accessToken(answer: VendorAnswer): MintedCredential<string> {
  const { data } = tokenSchema.safeParse(answer.json);
  if (answer.status === 200 && data) return { value: data.access_token, lifetimeMs: data.expires_in * 1000 };
  throw entraRefusal(answer);
}

function entraRefusal({ status, json, retryAfterMs }: VendorAnswer): RingError {
  const { data } = entraSchema.safeParse(json);
  const number = data?.error_codes[0];
  const code = number === undefined ? String(status) : `AADSTS${number}`;
  const more = { code, retryAfterMs };
  if (status === 429) return new RingError("quota", "Entra throttles this application.", more);
  if (status >= 500 || data?.error === "temporarily_unavailable") {
    return new RingError("transient", "Entra is not available.", more);
  }
  if (data && status >= 400) {
    const known = number === undefined ? undefined : BY_ENTRA_CODE[number];
    const message = known ?? `Entra refuses the application (${code}): look at tenant_id, client_id and client_secret.`;
    return new RingError("bad_credential", message, more);
  }
  const { kind, message } = undocumented("Entra", status);
  return new RingError(kind, message, more);
}
