/** What Pusher's answers mean. Pure. */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

const acceptedSchema = z.object({ publishId: z.string().min(1).max(200) });
const errorSchema = z.object({ error: z.string(), description: z.string() });

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

/** By status, https://pusher.com/docs/beams/reference/publish-api/ */
const MEANINGS: Readonly<Record<number, Meaning>> = {
  400: { kind: "bad_request", message: "Pusher cannot read the request. This is a fault of LeafMesh's." },
  401: {
    kind: "bad_credential",
    message: "Pusher refuses `primary_key`: copy it again from the instance's Credentials.",
  },
  402: { kind: "quota", message: "The instance is over the limits of its plan: raise the plan in Pusher's dashboard." },
  404: { kind: "bad_credential", message: "Pusher knows no instance with this `instance_id`." },
  413: { kind: "too_big", message: "The notification is larger than Pusher takes." },
  422: { kind: "bad_request", message: "Pusher does not understand the notification. This is a fault of LeafMesh's." },
  429: { kind: "quota", message: "The instance was sent more than 100 requests in a second." },
};

/** Pusher's id of what it took; `undefined` for every other answer. */
export function acceptedId({ status, json }: VendorAnswer): string | undefined {
  return status === 200 ? acceptedSchema.safeParse(json).data?.publishId : undefined;
}

/** Why a ring was not taken; answers that nobody documents go by their status. */
export function ringError(answer: VendorAnswer): RingError {
  const { status, retryAfterMs } = answer;
  const { kind, message } = isTooLarge(answer) ? tooLarge : (MEANINGS[status] ?? byStatus(status));
  // A page with the status 200 comes from something between the mesh and Pusher.
  return new RingError(kind, message, { code: String(status), retryAfterMs, mayHaveRung: status < 400 });
}

const tooLarge: Meaning = { kind: "too_big", message: "The notification is larger than Pusher takes." };

/** Pusher has no status of its own for it. */
function isTooLarge({ status, json }: VendorAnswer): boolean {
  const { data } = errorSchema.safeParse(json);
  return status === 400 && data !== undefined && /too large/i.test(`${data.error} ${data.description}`);
}

function byStatus(status: number): Meaning {
  const message = `Pusher answered with the status ${status}, and nothing that it documents.`;
  if (status === 403) return { kind: "bad_credential", message };
  return { kind: status >= 500 || status < 400 ? "transient" : "bad_request", message };
}
