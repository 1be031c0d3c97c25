/**
 * What IoT Hub's answers to a direct method mean. Pure.
 * https://learn.microsoft.com/azure/iot-hub/troubleshoot-error-codes
 */
import * as z from "zod";
import { RingError, type RingErrorKind } from "../contract.ts";
import type { VendorAnswer } from "../http/index.ts";

interface Meaning {
  readonly kind: RingErrorKind;
  readonly message: string;
}

const OFFLINE: Meaning = {
  kind: "offline",
  message: "The device is not connected to the IoT Hub, or its program does not listen for leafmesh_connect.",
};
const REFUSED: Meaning = {
  kind: "bad_credential",
  message:
    "IoT Hub refused connection_string: it needs the key of a policy with the right ServiceConnect, and the clock of " +
    "the machine that runs the mesh has to be right.",
};
const UNAVAILABLE: Meaning = { kind: "transient", message: "The IoT Hub is not available at the moment." };
const THROTTLED: Meaning = { kind: "quota", message: "The IoT Hub is sent more than its units allow: add some." };
const MISUNDERSTOOD: Meaning = { kind: "bad_request", message: "IoT Hub does not understand the direct method." };
const TOO_BIG: Meaning = { kind: "too_big", message: "The ring is larger than a direct method may be." };

interface Row {
  /** Six digits, of which the first three are the HTTP status. */
  readonly code: number;
  /** What the header and older bodies say instead. */
  readonly name: string;
  readonly meaning: Meaning;
}

const row = (code: number, name: string, meaning: Meaning): Row => ({ code, name, meaning });

/** Every code that a direct method can meet. */
const ROWS: readonly Row[] = [
  row(404001, "DeviceNotFound", {
    kind: "dead_token",
    message: "No device is registered in the IoT Hub under this id, or it is disabled there.",
  }),
  // The documentation has it under both numbers.
  row(404103, "DeviceNotOnline", OFFLINE),
  row(404102, "DeviceNotOnline", OFFLINE),
  row(404104, "DeviceConnectionClosedRemotely", OFFLINE),
  row(503102, "DeviceUnavailable", OFFLINE),
  // Its id is good again when it is enabled: no reason for the app to forget it.
  row(403012, "DeviceDisabled", {
    kind: "offline",
    message: "The device is disabled in the IoT Hub: enable it there.",
  }),
  row(400035, "InvalidPolicyKey", REFUSED),
  row(401000, "GenericUnauthorized", REFUSED),
  row(401001, "IotHubNotFound", {
    kind: "bad_credential",
    message: "There is no IoT Hub of the HostName in connection_string: copy it from the portal again.",
  }),
  row(401002, "IotHubUnauthorizedAccess", REFUSED),
  row(401003, "IotHubUnauthorized", REFUSED),
  row(403000, "GenericForbidden", REFUSED),
  row(403001, "IotHubSuspended", {
    kind: "bad_credential",
    message: "The IoT Hub is suspended: see the subscription in the portal.",
  }),
  row(403010, "OperationNotAvailableInCurrentTier", {
    kind: "bad_credential",
    message: "The IoT Hub's tier has no direct methods: choose the free or a standard tier.",
  }),
  row(403011, "KeyEncryptionKeyRevoked", {
    kind: "bad_credential",
    message: "The IoT Hub's own encryption key is revoked: see its settings in the portal.",
  }),
  row(404013, "FeatureNotSupported", {
    kind: "bad_credential",
    message: "This IoT Hub does not support direct methods: see its tier in the portal.",
  }),
  row(403002, "IotHubQuotaExceeded", {
    kind: "quota",
    message: "The IoT Hub's messages of the day are used up: add units, or wait for the next day (UTC).",
  }),
  row(403800, "DeviceMaximumInflightMethodExceeded", {
    kind: "quota",
    message: "Too many direct methods wait for this device: its program has to answer each at once.",
  }),
  row(429000, "GenericTooManyRequests", THROTTLED),
  row(429001, "ThrottlingException", THROTTLED),
  row(429002, "ThrottleBacklogLimitExceeded", THROTTLED),
  row(429003, "ThrottlingBacklogTimeout", THROTTLED),
  row(429005, "DeviceThrottlingLimitExceeded", THROTTLED),
  row(400021, "RequestCanceled", UNAVAILABLE),
  row(400024, "RequestTimedOut", UNAVAILABLE),
  row(400027, "ConnectionForcefullyClosedOnNewConnection", {
    kind: "transient",
    message: "The device has just connected anew; if it stays so, two devices use the same id.",
  }),
  row(400029, "ConnectionForcefullyClosedOnFaultInjection", UNAVAILABLE),
  row(400030, "ConnectionRejectedOnFaultInjection", UNAVAILABLE),
  row(404012, "IotHubFailingOver", UNAVAILABLE),
  row(499000, "ClientClosedRequest", UNAVAILABLE),
  row(500001, "ServerError", UNAVAILABLE),
  row(500008, "GenericTimeout", UNAVAILABLE),
  row(502000, "GenericBadGateway", UNAVAILABLE),
  row(503000, "GenericServiceUnavailable", UNAVAILABLE),
  row(503001, "ServiceUnavailable", UNAVAILABLE),
  row(503004, "IotHubActivationFailed", UNAVAILABLE),
  row(503005, "ServerBusy", UNAVAILABLE),
  row(503006, "IotHubRestoring", UNAVAILABLE),
  row(503008, "ReceiveLinkOpensThrottled", UNAVAILABLE),
  row(503101, "ConnectionUnavailable", UNAVAILABLE),
  row(504000, "GenericGatewayTimeout", UNAVAILABLE),
  row(400004, "ArgumentInvalid", MISUNDERSTOOD),
  row(400006, "IotHubFormatError", MISUNDERSTOOD),
  row(400012, "DeserializationError", MISUNDERSTOOD),
  row(400103, "InvalidContentEncodingOrType", MISUNDERSTOOD),
  row(405000, "GenericMethodNotAllowed", MISUNDERSTOOD),
  row(415000, "GenericUnsupportedMediaType", MISUNDERSTOOD),
  row(413000, "GenericRequestEntityTooLarge", TOO_BIG),
  row(413001, "MessageTooLarge", TOO_BIG),
];

const BY_CODE = new Map(ROWS.map((each) => [each.code, each]));
/** By name, the number that comes first in the table. */
const BY_NAME = new Map(ROWS.toReversed().map((each) => [each.name.toLowerCase(), each]));

/** The hub could not tell whether the device answered in time. It had given the method to the device by then. */
const NO_ANSWER_IN_TIME = 504101;

const answeredSchema = z.object({ status: z.int() });
const errorSchema = z.object({ Message: z.string() });
const nestedSchema = z.object({ errorCode: z.int() });

/**
 * Returns when the device has the ring: it answered the method with a 2xx of its own, or the hub waited for its answer
 * in vain, and such a device may be about to join. Throws {@link RingError} for every other answer.
 */
export function assertRung(answer: VendorAnswer): void {
  const { data } = answeredSchema.safeParse(answer.json);
  if (answer.status === 200 && data) {
    if (data.status >= 200 && data.status < 300) return;
    throw new RingError(
      "bad_request",
      `The device answered leafmesh_connect with the status ${data.status}: its program has to answer with 200.`,
      { code: "device_status", mayHaveRung: true },
    );
  }
  const { code, name } = said(answer);
  if (answer.status === 504 && (code === NO_ANSWER_IN_TIME || name === "gatewaytimeout")) return;
  throw hubError(answer, BY_CODE.get(code ?? 0) ?? BY_NAME.get(name ?? ""));
}

function hubError({ status, retryAfterMs }: VendorAnswer, known: Row | undefined): RingError {
  const { kind, message } = known?.meaning ?? byStatus(status);
  const code = String(known?.code ?? status);
  return new RingError(kind, message, { code, retryAfterMs, mayHaveRung: status < 300 || status === 504 });
}

interface Said {
  readonly code?: number | undefined;
  /** In small letters. */
  readonly name?: string | undefined;
}

/**
 * Which error it is, in the three ways in which hubs say so: a number in a JSON text within the JSON, which is the most
 * exact; a name in the header; a name in the text.
 */
function said({ json, headers }: VendorAnswer): Said {
  const { Message: text = "" } = errorSchema.safeParse(json).data ?? {};
  const code = nestedSchema.safeParse(parsed(text)).data?.errorCode;
  if (code !== undefined) return { code };
  const header = headers["iothub-errorcode"];
  const [, named] = /^ErrorCode:\s*(\w{1,80})/i.exec(text) ?? [];
  const name = typeof header === "string" ? header : named;
  return /^\d{6}$/.test(name ?? "") ? { code: Number(name) } : { name: name?.toLowerCase() };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** For answers without a code that is known. A bare 404 says nothing about the device. */
function byStatus(status: number): Meaning {
  if (status === 401 || status === 403) return REFUSED;
  if (status === 413) return TOO_BIG;
  if (status === 429) return THROTTLED;
  if (status === 408 || status >= 500) return UNAVAILABLE;
  const message = `IoT Hub answered with the status ${status} and no code that it documents.`;
  return { kind: status < 400 ? "transient" : "bad_request", message };
}
