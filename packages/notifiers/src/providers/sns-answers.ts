/**
 * What Amazon SNS's answers mean. Pure.
 * https://docs.aws.amazon.com/sns/latest/api/API_Publish.html#API_Publish_Errors
 */
import { RingError } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";
import { type AwsMeaning, keyRefusal, xmlError } from "./aws-refusals.ts";

const NO_RIGHT: AwsMeaning = {
  kind: "bad_credential",
  message: "The access key may not do this: give its user the right sns:Publish on the endpoints of your application.",
};
const THROTTLED: AwsMeaning = {
  kind: "quota",
  message: "SNS is sent more than the account's limit: raise it under Service Quotas.",
};
const UNAVAILABLE: AwsMeaning = { kind: "transient", message: "SNS has an error of its own at the moment." };
const TOO_BIG: AwsMeaning = { kind: "too_big", message: "The notification is larger than SNS takes." };
const MISUNDERSTOOD: AwsMeaning = { kind: "bad_request", message: "SNS does not understand the notification." };
const GONE: AwsMeaning = { kind: "dead_token", message: "SNS has no such endpoint any more." };
const APP_GONE: AwsMeaning = {
  kind: "bad_credential",
  message: "The platform application of this endpoint is gone from SNS: create it again, and the endpoints with it.",
};
const ENCRYPTION: AwsMeaning = {
  kind: "bad_credential",
  message: "SNS may not use the encryption key: see it in KMS.",
};

/** By code, without `Exception` at its end. */
const BY_CODE: Readonly<Record<string, AwsMeaning>> = {
  EndpointDisabled: {
    kind: "dead_token",
    message: "SNS has disabled the endpoint, as it does once Google, Apple or Amazon call the device's token invalid.",
  },
  PlatformApplicationDisabled: {
    kind: "bad_credential",
    message:
      "SNS has disabled the platform application: renew its key or certificate of Google or Apple in the console.",
  },
  AuthorizationError: NO_RIGHT,
  AccessDenied: NO_RIGHT,
  KMSDisabled: ENCRYPTION,
  KMSInvalidState: ENCRYPTION,
  KMSNotFound: ENCRYPTION,
  KMSOptInRequired: ENCRYPTION,
  KMSAccessDenied: ENCRYPTION,
  KMSThrottling: THROTTLED,
  Throttled: THROTTLED,
  Throttling: THROTTLED,
  InternalError: UNAVAILABLE,
  InternalFailure: UNAVAILABLE,
  ServiceUnavailable: UNAVAILABLE,
  RequestEntityTooLarge: TOO_BIG,
};

/** The id of what SNS queued; `undefined` for every other answer, a 200 that is none of SNS's included. */
export function publishedId({ status, text }: VendorAnswer): string | undefined {
  if (status !== 200 || !text.includes("<PublishResult>")) return undefined;
  return /<MessageId>([\w-]{1,100})<\/MessageId>/.exec(text)?.[1];
}

/** Whether the key was good, and lacked a right. */
export function isRightMissing(error: unknown): boolean {
  return error instanceof RingError && ["AuthorizationError", "AccessDenied"].includes(bare(error.code ?? ""));
}

/** Why a request was not taken; answers that nobody documents go by their status. */
export function snsError(answer: VendorAnswer): RingError {
  const { status, retryAfterMs } = answer;
  const { code, said } = xmlError(answer);
  const { kind, message } =
    keyRefusal(code, said) ?? byWords(bare(code), said) ?? known(bare(code)) ?? byStatus(status, code);
  return new RingError(kind, message, { code: code || String(status), retryAfterMs, mayHaveRung: status < 300 });
}

function known(code: string): AwsMeaning | undefined {
  return Object.hasOwn(BY_CODE, code) ? BY_CODE[code] : undefined;
}

/** Codes that mean several things. Only what names the endpoint itself is a dead token. */
function byWords(code: string, said: string): AwsMeaning | undefined {
  if (code === "NotFound") {
    if (/application/i.test(said)) return APP_GONE;
    return /endpoint/i.test(said) ? GONE : { ...MISUNDERSTOOD, message: "SNS does not find what it was asked for." };
  }
  if (!["InvalidParameter", "ParameterValueInvalid", "Validation", "InvalidParameterValue"].includes(code)) {
    return undefined;
  }
  if (/no endpoint found/i.test(said)) return GONE;
  if (/too (?:long|large|big)|size|exceed/i.test(said)) return TOO_BIG;
  if (/TargetArn/i.test(said)) {
    return {
      kind: "bad_request",
      message: "SNS does not take the push token: it is no endpoint of this account here.",
    };
  }
  return MISUNDERSTOOD;
}

function bare(code: string): string {
  return code.replace(/Exception$/, "");
}

function byStatus(status: number, code: string): AwsMeaning {
  if (status === 413) return TOO_BIG;
  if (status === 429) return THROTTLED;
  if (status >= 500) return UNAVAILABLE;
  // Of SNS, or of a proxy on the way: neither says anything of a device.
  if (status === 401 || status === 403) {
    return { kind: "bad_credential", message: `AWS refused the access key with the status ${status}.` };
  }
  const message = `SNS answered with the status ${status}${code && ` and ${code}`}, which it does not document.`;
  return { kind: status < 400 ? "transient" : "bad_request", message };
}
