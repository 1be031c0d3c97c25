/**
 * What AWS IoT Core's answers to a publish over HTTPS mean. Pure.
 * https://docs.aws.amazon.com/iot/latest/developerguide/iot-errors.html
 */
import * as z from "zod";
import { RingError } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";
import { type AwsMeaning, keyRefusal } from "./aws-refusals.ts";

const NO_RIGHT: AwsMeaning = {
  kind: "bad_credential",
  message: "The access key may not publish to this topic: give its user the right iot:Publish on the devices' topics.",
};
const THROTTLED: AwsMeaning = {
  kind: "quota",
  message: "AWS IoT Core is sent more than the account's limit: raise it under Service Quotas.",
};
const UNAVAILABLE: AwsMeaning = { kind: "transient", message: "AWS IoT Core has an error of its own at the moment." };
const TOO_BIG: AwsMeaning = { kind: "too_big", message: "The ring is larger than AWS IoT Core takes." };
const MISUNDERSTOOD: AwsMeaning = { kind: "bad_request", message: "AWS IoT Core does not understand the message." };
const NOT_FOUND: AwsMeaning = {
  kind: "bad_request",
  message: "AWS IoT Core does not find what it was asked for. That says nothing of the device.",
};

/** By name, without `Exception` at its end. */
const BY_NAME: Readonly<Record<string, AwsMeaning>> = {
  Unauthorized: NO_RIGHT,
  AccessDenied: NO_RIGHT,
  Throttling: THROTTLED,
  LimitExceeded: THROTTLED,
  InternalFailure: UNAVAILABLE,
  ServiceUnavailable: UNAVAILABLE,
  GatewayTimeout: UNAVAILABLE,
  RequestEntityTooLarge: TOO_BIG,
  InvalidRequest: MISUNDERSTOOD,
  MethodNotAllowed: MISUNDERSTOOD,
  UnsupportedDocumentEncoding: MISUNDERSTOOD,
  Conflict: MISUNDERSTOOD,
  ResourceNotFound: NOT_FOUND,
};

const BY_STATUS: Readonly<Record<number, AwsMeaning>> = {
  400: MISUNDERSTOOD,
  401: NO_RIGHT,
  404: NOT_FOUND,
  405: MISUNDERSTOOD,
  409: MISUNDERSTOOD,
  413: TOO_BIG,
  415: MISUNDERSTOOD,
  426: MISUNDERSTOOD,
  429: THROTTLED,
};

/** `ForbiddenException` is what IoT Core calls all that is wrong with a key; the text tells which. */
const FORBIDDEN: readonly { readonly said: RegExp; readonly means: string }[] = [
  { said: /token .*expired|expired token/i, means: "ExpiredToken" },
  { said: /signature expired|not yet current/i, means: "RequestExpired" },
  { said: /security token .*invalid/i, means: "InvalidClientTokenId" },
  { said: /signature/i, means: "SignatureDoesNotMatch" },
  { said: /missing authentication/i, means: "MissingAuthenticationToken" },
];

const saidSchema = z.object({ message: z.string().optional(), Message: z.string().optional() });
const objectSchema = z.record(z.string(), z.unknown());
const traceSchema = z.object({ traceId: z.string().regex(/^[\w-]{1,100}$/) });

/** Whether the broker has the message: the status, with the small object that AWS sends, or nothing. */
export function isPublished({ status, text, json }: VendorAnswer): boolean {
  return status === 200 && (text === "" || objectSchema.safeParse(json).success);
}

/** AWS's id of the request. */
export function traceId({ json }: VendorAnswer): string | undefined {
  return traceSchema.safeParse(json).data?.traceId;
}

/** Whether the key was good, and lacked a right. */
export function isRightMissing(error: unknown): boolean {
  return error instanceof RingError && error.message === NO_RIGHT.message;
}

/** Why a ring was not taken; answers that nobody documents go by their status. */
export function iotError(answer: VendorAnswer): RingError {
  const { status, retryAfterMs } = answer;
  const { name, said } = errorOf(answer);
  const { kind, message } = meaningOf(status, name.replace(/Exception$/, ""), said);
  return new RingError(kind, message, { code: name || String(status), retryAfterMs, mayHaveRung: status < 300 });
}

function meaningOf(status: number, name: string, said: string): AwsMeaning {
  if (name === "Forbidden" || (name === "" && status === 403)) {
    const { means } = FORBIDDEN.find((row) => row.said.test(said)) ?? {};
    if (means !== undefined) return keyRefusal(means, said) ?? NO_RIGHT;
    // A bare 403 may come from a proxy on the way, too.
    return name === "" && said === ""
      ? { kind: "bad_credential", message: "AWS refused the request (403)." }
      : NO_RIGHT;
  }
  const known = Object.hasOwn(BY_NAME, name) ? BY_NAME[name] : undefined;
  return keyRefusal(name, said) ?? known ?? BY_STATUS[status] ?? undocumented(status);
}

/** The name is in a header, with a namespace or an address behind a colon. */
function errorOf({ headers, json }: VendorAnswer): { readonly name: string; readonly said: string } {
  const { message, Message } = saidSchema.safeParse(json).data ?? {};
  const [name = ""] = (headers["x-amzn-errortype"]?.toString() ?? "").split(":");
  return { name: /^[A-Za-z]{1,80}$/.test(name) ? name : "", said: message ?? Message ?? "" };
}

function undocumented(status: number): AwsMeaning {
  const message = `AWS IoT Core answered with the status ${status}, which it does not document.`;
  return { kind: status >= 500 || status < 400 ? "transient" : "bad_request", message };
}
