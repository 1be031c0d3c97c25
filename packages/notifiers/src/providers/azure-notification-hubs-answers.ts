/**
 * What a notification hub's answers mean. Pure.
 * https://learn.microsoft.com/rest/api/notificationhubs/direct-send#response
 */
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
  /** In place of the status, where the hub says more in its detail. */
  readonly code?: string | undefined;
}

const refused = (code: string | undefined, message: string): Meaning => ({ kind: "bad_credential", code, message });

/** By the status and what the hub says in `<Detail>`: the first row that fits both. */
const DETAILED: readonly (Meaning & { readonly statuses: readonly number[]; readonly detail: RegExp })[] = [
  {
    statuses: [401],
    detail: /ExpiredToken/i,
    ...refused("ExpiredToken", "Azure calls the signature expired: set the clock of the machine that runs the mesh."),
  },
  {
    statuses: [401],
    detail: /InvalidSignature|40103/i,
    ...refused(
      "InvalidSignature",
      "Azure refused the signature: the key in connection_string is not the policy's, so copy it from the portal again.",
    ),
  },
  {
    statuses: [401],
    detail: /InvalidAudience/i,
    ...refused("InvalidAudience", "Azure refused the signature for this hub: check connection_string and hub_name."),
  },
  {
    statuses: [400, 403, 404],
    detail: /no target applications|credentials specified in the notification hub/i,
    ...refused(
      "no_target_applications",
      "The hub has no credentials for this payload_format: enter those of Firebase or Apple under Settings in the portal.",
    ),
  },
  {
    statuses: [403],
    detail: /too large|exceeds? (the )?(maximum|size)|message size/i,
    kind: "too_big",
    message: "The notification is larger than the hub takes.",
  },
  {
    statuses: [403],
    detail: /not available for your tier/i,
    kind: "quota",
    code: "tier",
    message: "The namespace's pricing tier does not offer this: choose a higher one in the portal.",
  },
];

/** https://learn.microsoft.com/rest/api/notificationhubs/send-template-notification#response */
const BY_STATUS: Readonly<Record<number, Meaning>> = {
  400: { kind: "bad_request", message: "The hub does not understand the notification, or the push token's form." },
  401: refused(
    undefined,
    "Azure refused connection_string: it needs the key of a policy of this hub that has the right Send.",
  ),
  403: { kind: "quota", message: "The hub's quota is used up: see its usage and pricing tier in the portal." },
  404: refused(undefined, "There is no hub of this hub_name in the namespace that connection_string names."),
  408: { kind: "transient", message: "The hub took too long to take the notification." },
  413: { kind: "too_big", message: "The notification is larger than the hub takes." },
  429: { kind: "quota", message: "The hub is sent more than its pricing tier allows." },
  500: { kind: "transient", message: "The hub has an error of its own." },
  503: { kind: "transient", message: "The hub is not available at the moment." },
};

/**
 * Whether the hub has queued the notification: 201 for a direct send, 200 or 201 for one to a tag. Both come without a
 * body, so a 200 with one is a page of something between the mesh and Azure.
 */
export function isQueued({ status, text }: VendorAnswer): boolean {
  return status === 201 || (status === 200 && text === "");
}

/** The hub's id of the notification where its tier has one, else that of the request. */
export function receiptId({ headers }: VendorAnswer): string | undefined {
  const { location, trackingid } = headers;
  const [, id] = /\/messages\/([\w.-]{1,120})(?:\?|$)/.exec(location ?? "") ?? [];
  return id ?? (typeof trackingid === "string" && /^[\w.-]{1,120}$/.test(trackingid) ? trackingid : undefined);
}

/** Why a ring was not taken; answers that nobody documents go by their status. */
export function hubError(answer: VendorAnswer): RingError {
  const { status, text, retryAfterMs } = answer;
  const [, detail = ""] = /<Detail>([^<]{0,2000})/i.exec(text) ?? [];
  const detailed = DETAILED.find((row) => row.statuses.includes(status) && row.detail.test(detail));
  const { kind, message, code = String(status) } = detailed ?? BY_STATUS[status] ?? undocumented(status);
  // A success that makes no sense may be one all the same.
  return new RingError(kind, message, { code, retryAfterMs, mayHaveRung: status < 300 });
}

function undocumented(status: number): Meaning {
  const message = `The hub answered with the status ${status}, which Azure does not document.`;
  return { kind: status >= 500 || status < 400 ? "transient" : "bad_request", message };
}
