/** What the vendor's answers mean. Pure. */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../src/contract.ts";
import type { VendorAnswer } from "../src/http/index.ts";

export const acceptedSchema = z.object({ id: z.string().min(1) });
export const tokenSchema = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() });
const errorSchema = z.object({ error: z.string() });

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

/** By the vendor's code, https://push.example.com/docs/errors */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  unregistered: { kind: "dead_token", message: "The app was removed from the device, or its token replaced." },
  token_expired: { kind: "bad_credential", message: "The push service refused the access token: make a new app_key." },
  forbidden: { kind: "bad_credential", message: "The app_key may not send: give it that right in the console." },
  rate_limited: { kind: "quota", message: "The app sends more than its plan allows." },
  payload_too_large: { kind: "too_big", message: "The notification is larger than the push service takes." },
  bad_field: { kind: "bad_request", message: "The push service does not understand the notification." },
  unavailable: { kind: "transient", message: "The push service is overloaded." },
};

/** Why a ring was not taken; answers that nobody documents go by their status. */
export function ringError(answer: VendorAnswer): RingError {
  const { data } = errorSchema.safeParse(answer.json);
  const { kind, message } = (data && MEANINGS[data.error]) ?? byStatus(answer.status);
  const code = data && data.error in MEANINGS ? data.error : String(answer.status);
  return new RingError(kind, message, { code, retryAfterMs: answer.retryAfterMs });
}

export function credentialError(answer: VendorAnswer): RingError {
  if (answer.status !== 401) return ringError(answer);
  return new RingError("bad_credential", "The push service does not know this app_id with this app_key.", {
    code: "401",
  });
}

function byStatus(status: number): Meaning {
  const message = `The push service answered with the status ${status}, and nothing that it documents.`;
  if (status === 401 || status === 403) return { kind: "bad_credential", message };
  if (status === 429) return { kind: "quota", message };
  // A page with the status 200 comes from something between the mesh and the vendor.
  return { kind: status >= 500 || status < 400 ? "transient" : "bad_request", message };
}
