/** What Huawei's answers mean. Pure. */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

const ACCEPTED = "80000000";

const answerSchema = z.object({
  code: z.string().regex(/^\d{1,12}$/),
  msg: z.string().catch(""),
  requestId: z.string().min(1).max(200).optional().catch(undefined),
});

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const NOT_OURS = "This is a fault of LeafMesh's.";
const malformed = (what: string): Meaning => ({
  kind: "bad_request",
  message: `Huawei does not understand ${what}. ${NOT_OURS}`,
});
const REFUSED_TOKEN: Meaning = {
  kind: "bad_credential",
  message: "Huawei refuses the access token of `client_id`: copy the client secret again from AppGallery Connect.",
};
const OTHER_APP: Meaning = {
  kind: "dead_token",
  message: "The push token is of another app than `client_id`.",
};
const TEST_LIMIT: Meaning = { kind: "quota", message: "Huawei's limit of test messages is reached." };
const FAULT: Meaning = { kind: "transient", message: "Huawei had a fault of its own." };

/**
 * By the code in the body; the HTTP status is 200 for all of them.
 * https://developer.huawei.com/consumer/en/doc/HMSCore-References/https-send-api-0000001050986197
 */
const MEANINGS: Readonly<Record<string, Meaning>> = {
  "80000001": FAULT,
  // For the one token that is sent to, a part that failed is all.
  "80100000": { kind: "dead_token", message: "Huawei says that the push token is not valid any more." },
  "80100001": malformed("a parameter"),
  "80100002": malformed("the number of push tokens"),
  "80100003": malformed("the message"),
  "80100004": malformed("the time to live"),
  "80100013": malformed("the collapse key"),
  "80100016": { kind: "bad_request", message: "Huawei refuses the name of the mesh: it has words that it filters." },
  "80100017": { kind: "quota", message: "Huawei's limit of messages is reached." },
  "80100020": malformed("the message"),
  "80200001": REFUSED_TOKEN,
  "80200003": REFUSED_TOKEN,
  "80200005": REFUSED_TOKEN,
  "80300036": REFUSED_TOKEN,
  "80300002": {
    kind: "bad_credential",
    message: "The app may not send: in AppGallery Connect, enable Push Kit for the app of `client_id`.",
  },
  "80300007": { kind: "dead_token", message: "Huawei says that the push token is not valid any more." },
  "80300008": { kind: "too_big", message: "The message is larger than Huawei takes." },
  "80300010": malformed("the number of push tokens"),
  "80300011": malformed("the urgency"),
  "80300017": OTHER_APP,
  "80300028": OTHER_APP,
  "80300029": TEST_LIMIT,
  "80300030": TEST_LIMIT,
  "80300037": {
    kind: "bad_credential",
    message: "Huawei has blocked the app for a violation: see AppGallery Connect.",
  },
  "81000001": FAULT,
};

/** Codes with which Huawei refuses an access token that another one may replace; `401` is an answer without a code. */
export const ACCESS_TOKEN_REFUSED: ReadonlySet<string> = new Set(["80200001", "80200003", "401"]);

/** Huawei has nothing against a message to this token but the token. */
export const TOKEN_REFUSED: ReadonlySet<string> = new Set(["80100000", "80300007"]);

/** What a wrong `client_id` is told of every token. */
const OF_ANOTHER_APP: ReadonlySet<string> = new Set(["80300007", "80300017", "80300028"]);

/** Huawei's id of the request that it took; `undefined` for every other answer. */
export function acceptedId({ status, json }: VendorAnswer): string | undefined {
  const { data } = answerSchema.safeParse(json);
  return status === 200 && data?.code === ACCEPTED ? (data.requestId ?? "accepted") : undefined;
}

/**
 * Why a message was not taken; answers that nobody documents go by their status. `hasRung`: whether Huawei ever took one
 * of this record. Before that, "all tokens invalid" and "of another app" say most likely that the record is of another app
 * than the token, and a device must not be forgotten for it.
 */
export function ringError(answer: VendorAnswer, hasRung: boolean): RingError {
  const { status, retryAfterMs } = answer;
  const { data } = answerSchema.safeParse(answer.json);
  const code = data?.code ?? String(status);
  const known = !hasRung && OF_ANOTHER_APP.has(code) ? unknownApp : MEANINGS[code];
  const { kind, message } = known ?? byStatus(status, data !== undefined);
  // A page with the status 200 comes from something between the mesh and Huawei.
  return new RingError(kind, message, { code, retryAfterMs, mayHaveRung: status < 400 && !data });
}

const unknownApp: Meaning = {
  kind: "bad_credential",
  message:
    "Huawei takes no push token for this `client_id` yet: either it is another app's, or the device has removed the app.",
};

function byStatus(status: number, hasCode: boolean): Meaning {
  const message = `Huawei answered with the status ${status}, and nothing that it documents.`;
  if (status === 401 || status === 403) return { kind: "bad_credential", message };
  if (status === 413) return { kind: "too_big", message };
  if (status === 429 || status === 503) {
    return { kind: "quota", message: "Huawei was sent more requests in a second than it takes." };
  }
  const isPassing = status >= 500 || (status < 400 && !hasCode);
  return { kind: isPassing ? "transient" : "bad_request", message };
}

const tokenSchema = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]{1,8192}$/),
  expires_in: z.number().positive().max(86_400),
});
const tokenErrorSchema = z.object({ sub_error: z.union([z.string(), z.number()]).transform(String) });

/** https://developer.huawei.com/consumer/cn/doc/HMSCore-References/server-error-codes-0000001062371380 */
const TOKEN_PROBLEMS: Readonly<Record<string, string>> = {
  "12304": "Huawei refuses `client_secret`: copy it again from AppGallery Connect.",
  "20002": "Huawei does not take `client_id`: it is the App ID of AppGallery Connect.",
  "20003": "Huawei knows no app with this `client_id`: it is the App ID of AppGallery Connect.",
  "20171": "Huawei refuses `client_secret`: copy it again from AppGallery Connect.",
  "20172": "Huawei refuses `client_secret`: copy it again from AppGallery Connect.",
};

/** The access token in an answer, and how long it is good for. Throws {@link RingError}. */
export function accessToken(answer: VendorAnswer): { readonly value: string; readonly lifetimeMs: number } {
  const { status, json, retryAfterMs } = answer;
  const { data } = status === 200 ? tokenSchema.safeParse(json) : {};
  if (data) return { value: data.access_token, lifetimeMs: data.expires_in * 1000 };
  const code = tokenErrorSchema.safeParse(json).data?.sub_error ?? String(status);
  if (status === 400 || status === 401) {
    const message = TOKEN_PROBLEMS[code] ?? "Huawei refuses `client_id` and `client_secret`.";
    throw new RingError("bad_credential", message, { code });
  }
  const message = `Huawei gives out no access token now (${status}).`;
  throw new RingError(status === 429 || status === 503 ? "quota" : "transient", message, { code, retryAfterMs });
}
