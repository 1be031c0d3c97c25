/** What Google's answers mean. Pure. */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

const takenSchema = z.object({ name: z.string().regex(/^projects\/[^/]+\/messages\/[^/]+$/) });
const refusedSchema = z.object({
  error: z.object({
    status: z.string().catch(""),
    message: z.string().catch(""),
    details: z
      .array(
        z.looseObject({
          "@type": z.string().catch(""),
          errorCode: z.string().optional().catch(undefined),
          reason: z.string().optional().catch(undefined),
          fieldViolations: z.array(z.looseObject({ field: z.string().catch("") })).catch([]),
        }),
      )
      .catch([]),
  }),
});

/** Google asks for at least so much after a refusal for its quota. https://firebase.google.com/docs/cloud-messaging/error-codes */
const QUOTA_PAUSE_MS = 60_000;

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const NOT_OURS = "This is a fault of LeafMesh's.";
const DEAD: Meaning = { kind: "dead_token", message: "Firebase does not know this registration token any more." };
const PROJECT: Meaning = {
  kind: "bad_credential",
  message: "Firebase knows no project with this `project_id`: compare it with the project of the app.",
};
const OTHER_PROJECT: Meaning = {
  kind: "bad_credential",
  message:
    "The registration token is of another Firebase project than `service_account` or `project_id`: use the app's project.",
};
const TOO_BIG: Meaning = { kind: "too_big", message: "The message is larger than Firebase takes." };

/**
 * By FCM's own error code, else by Google's status.
 * https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
 */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  UNREGISTERED: DEAD,
  SENDER_ID_MISMATCH: {
    kind: "dead_token",
    message: "The registration token is of another Firebase project than the service account's.",
  },
  THIRD_PARTY_AUTH_ERROR: {
    kind: "bad_credential",
    message:
      "Firebase has no valid key for this device's own push service: in the Firebase console, open Project settings → " +
      "Cloud Messaging and upload the Apple key or set the web push certificates.",
  },
  UNAUTHENTICATED: {
    kind: "bad_credential",
    message: "Firebase refuses the access token of `service_account`: make a new key for the account.",
  },
  PERMISSION_DENIED: {
    kind: "bad_credential",
    message:
      "The service account may not send: give it the role Firebase Cloud Messaging API Admin in the project of the app.",
  },
  SERVICE_DISABLED: {
    kind: "bad_credential",
    message: "The Firebase Cloud Messaging API (V1) is off in this project: enable it in the Google Cloud console.",
  },
  NOT_FOUND: PROJECT,
  INVALID_ARGUMENT: { kind: "bad_request", message: `Firebase does not understand the message. ${NOT_OURS}` },
  QUOTA_EXCEEDED: { kind: "quota", message: "Firebase's limit of messages is reached, for the project or the device." },
  RESOURCE_EXHAUSTED: { kind: "quota", message: "Firebase's limit of messages is reached for the project." },
  INTERNAL: { kind: "transient", message: "Firebase had a fault of its own." },
  UNAVAILABLE: { kind: "transient", message: "Firebase is overloaded." },
  UNSPECIFIED_ERROR: { kind: "transient", message: "Firebase gives no reason." },
};

/** Codes with which Google refuses an access token that another one may replace; `401` is an answer without words. */
export const ACCESS_TOKEN_REFUSED: ReadonlySet<string> = new Set(["UNAUTHENTICATED", "401"]);

/** Google's id of what it took; `undefined` for every other answer. */
export function acceptedId({ status, json }: VendorAnswer): string | undefined {
  const name = status === 200 ? takenSchema.safeParse(json).data?.name : undefined;
  return name?.slice(name.lastIndexOf("/") + 1);
}

/**
 * Why a message was not taken; answers that nobody documents go by their status. `hasRung`: whether Google ever took one of
 * this record. Before that, a token of another project says most likely that the record is of the wrong one, and no device
 * must be forgotten for it.
 */
export function ringError(answer: VendorAnswer, hasRung: boolean): RingError {
  const { status } = answer;
  const said = refusedSchema.safeParse(answer.json).data?.error;
  const code = said && knownCode(codeOf(said));
  const isOtherProject = code === "SENDER_ID_MISMATCH" && !hasRung;
  const known = isOtherProject ? OTHER_PROJECT : MEANINGS[code ?? ""];
  const meaning = (said && argumentMeaning(said, code)) ?? known ?? byStatus(status);
  const pauseMs = meaning.kind === "quota" ? QUOTA_PAUSE_MS : undefined;
  return new RingError(meaning.kind, meaning.message, {
    code: code ?? String(status),
    retryAfterMs: answer.retryAfterMs ?? pauseMs,
    // A page with the status 200 comes from something between the mesh and Google.
    mayHaveRung: status < 400,
  });
}

/** What nobody documents is not passed on: it may be anything, a push token too. */
function knownCode(code: string): string | undefined {
  return Object.hasOwn(MEANINGS, code) ? code : undefined;
}

type Refusal = z.output<typeof refusedSchema>["error"];

function codeOf({ status, details }: Refusal): string {
  const reason = details.find((detail) => detail.reason === "SERVICE_DISABLED")?.reason;
  return fcmCodeOf(details) ?? reason ?? status;
}

function fcmCodeOf(details: Refusal["details"]): string | undefined {
  return details.find((detail) => detail["@type"].endsWith("google.firebase.fcm.v1.FcmError"))?.errorCode;
}

/** One status for three things: a text that is no token, a message that is too large, and a field that is wrong. */
function argumentMeaning({ message, details, status }: Refusal, code: string | undefined): Meaning | undefined {
  if (status !== "INVALID_ARGUMENT" || code !== "INVALID_ARGUMENT") return undefined;
  const fields = details.flatMap(({ fieldViolations }) => fieldViolations.map(({ field }) => field));
  if (fields.includes("message.token")) return DEAD;
  if (fields.length > 0) return undefined;
  if (/too big|too large|exceed/i.test(message)) return TOO_BIG;
  return fcmCodeOf(details) === undefined ? undefined : DEAD;
}

function byStatus(status: number): Meaning {
  const message = `Firebase answered with the status ${status}, and nothing that it documents.`;
  if (status === 401 || status === 403) return { kind: "bad_credential", message };
  if (status === 413) return TOO_BIG;
  if (status === 429) return { kind: "quota", message };
  return { kind: status >= 500 || status < 400 ? "transient" : "bad_request", message };
}

const tokenSchema = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]{1,8192}$/),
  expires_in: z.number().positive().max(86_400),
});
const tokenErrorSchema = z.object({ error: z.string().min(1) });
const CLOCK_TOLERANCE_MS = 5 * 60_000;

/** The access token in an answer, and how long it is good for. Throws {@link RingError}. */
export function accessToken(
  answer: VendorAnswer,
  nowMs: number,
): { readonly value: string; readonly lifetimeMs: number } {
  const { data } = answer.status === 200 ? tokenSchema.safeParse(answer.json) : {};
  if (data) return { value: data.access_token, lifetimeMs: data.expires_in * 1000 };
  throw tokenError(answer, nowMs);
}

const NEW_KEY = "Make a new one for the account.";
const NOT_TAKEN = `Google does not take the request for an access token. ${NOT_OURS}`;

/** https://developers.google.com/identity/protocols/oauth2/service-account#error-codes */
const TOKEN_PROBLEMS: Readonly<Record<string, string>> = {
  invalid_grant: `Google refuses the key in \`service_account\`: it or its account was deleted or disabled. ${NEW_KEY}`,
  disabled_client:
    "The key in `service_account` is disabled: enable it in the Google Cloud console, or make a new one.",
  deleted_client: `The client of the key in \`service_account\` was deleted. ${NEW_KEY}`,
  invalid_client: `Google does not know the client of the key in \`service_account\`. ${NEW_KEY}`,
  unauthorized_client:
    "The account of `service_account` may have no access token for Firebase: use a key that the Firebase console made.",
  access_denied:
    "The organization's rules deny the account of `service_account` an access token: ask its administrator.",
  admin_policy_enforced:
    "The organization's rules deny the account of `service_account` this scope: ask its administrator.",
  org_internal: "The account of `service_account` is for the members of its organization alone: use another account.",
  invalid_scope: NOT_TAKEN,
  invalid_request: NOT_TAKEN,
  unsupported_grant_type: NOT_TAKEN,
};

/** Only Google's own words refuse a key: a page of something between the mesh and Google says nothing about it. */
function tokenError({ status, headers, json, retryAfterMs }: VendorAnswer, nowMs: number): RingError {
  const said = tokenErrorSchema.safeParse(json).data?.error;
  const code = said !== undefined && Object.hasOwn(TOKEN_PROBLEMS, said) ? said : String(status);
  if (said === undefined || status === 429 || status >= 500 || status < 400) {
    const message = `Google gives out no access token now (${status}).`;
    return new RingError(status === 429 ? "quota" : "transient", message, { code, retryAfterMs });
  }
  const offMs = Date.parse(headers.date ?? "") - nowMs;
  if (code === "invalid_grant" && Math.abs(offMs) > CLOCK_TOLERANCE_MS) {
    const minutes = Math.round(Math.abs(offMs) / 60_000);
    const message = `This machine's clock is ${minutes} minutes ${offMs > 0 ? "late" : "early"}, so Google refuses the key: set the clock.`;
    return new RingError("bad_credential", message, { code: "clock" });
  }
  const message = TOKEN_PROBLEMS[code] ?? `Google refuses the key in \`service_account\`. ${NEW_KEY}`;
  return new RingError("bad_credential", message, { code });
}
