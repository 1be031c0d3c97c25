/**
 * Plays an Azure IoT Hub and the devices that are registered in it: it checks the signature and the direct method, and
 * answers as the hub does for a device in that state. Nothing is waited for: a time-out is answered at once.
 * https://learn.microsoft.com/azure/iot-hub/iot-hub-devguide-direct-methods
 */
import type { Clock } from "@leafmesh/protocol";
import * as z from "zod";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { judgeSignature, type SignatureVerdict } from "./shared-access-signature.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

/**
 * A number: connected, and answers the method with that status. `mute`: connected, and gives no answer in time.
 * `no_handler`: connected, and listens for other methods alone, which the hub calls offline too.
 */
export type PlayedDeviceState = number | "mute" | "no_handler" | "offline" | "disabled";

export interface PlayedIotHub {
  readonly host: string;
  /** By name; the key is the base64 text that stands in the connection string. */
  readonly policies: Readonly<Record<string, { readonly key: string; readonly rights: readonly IotHubRight[] }>>;
  /** What is registered, by its id. */
  readonly devices: Readonly<Record<string, PlayedDeviceState>>;
}

type IotHubRight = "ServiceConnect" | "RegistryRead" | "RegistryWrite" | "DeviceConnect";

const API_VERSIONS = ["2020-05-31-preview", "2020-09-30", "2021-04-12"];
const JSON_TYPE = /^application\/json(?:; ?charset=utf-8)?$/i;
const PAYLOAD_MAX_BYTES = 131_072;
const PROBE_PATH = /^\/twins\/leafmesh-probe/;

const methodSchema = z.strictObject({
  methodName: z.string().regex(/^[\w.:-]{1,100}$/),
  payload: z.unknown(),
  responseTimeoutInSeconds: z.int().min(5).max(300),
  connectTimeoutInSeconds: z.int().min(0).max(300),
});
const ringSchema = z.strictObject({ leafmesh: z.string() });

export async function startAzureIotHub(
  clock: Clock,
  { host, policies, devices }: PlayedIotHub,
): Promise<NotifierDouble> {
  const rings: ReceivedRing[] = [];
  const keys = new Map(Object.entries(policies).map(([name, { key }]) => [name, Buffer.from(key, "base64")]));

  const refusalOf = ({ method, path, headers, query }: VendorRequest): VendorReply | undefined => {
    const nowMs = clock.nowMs();
    const verdict = judgeSignature({ header: headers.authorization, target: host + path, keys, nowMs });
    const isAllowed = "policy" in verdict && policies[verdict.policy]?.rights.includes("ServiceConnect");
    if (!isAllowed) return unauthorized(verdict);
    if (!/^\/twins\/[^/]{1,400}\/methods$/.test(path)) return iotHubRefusal(404, 404000, "Not found");
    if (method !== "POST") return iotHubRefusal(405, 405000, "Method not allowed");
    if (!API_VERSIONS.includes(query.get("api-version") ?? "")) return iotHubRefusal(400, 400001, "api-version");
    if (!JSON_TYPE.test(headers["content-type"] ?? "")) return iotHubRefusal(415, 415000, "Unsupported media type");
    return undefined;
  };

  const invoke = (request: VendorRequest): VendorReply => {
    const refusal = refusalOf(request);
    if (refusal) return refusal;
    const parsed = methodSchema.safeParse(request.json);
    if (!parsed.success) return iotHubRefusal(400, 400004, "BadRequest");
    const { methodName, payload, responseTimeoutInSeconds, connectTimeoutInSeconds } = parsed.data;
    if (Buffer.byteLength(JSON.stringify(payload) ?? "") > PAYLOAD_MAX_BYTES) {
      return iotHubRefusal(413, 413001, "Message too large");
    }
    const id = decodeURIComponent(request.path.split("/")[2] ?? "");
    const state = Object.hasOwn(devices, id) ? devices[id] : undefined;
    if (state === undefined) return iotHubRefusal(404, 404001, "NotFound");
    if (state === "disabled") return iotHubRefusal(403, 403012, "Device disabled");
    if (state === "offline" || state === "no_handler" || methodName !== "leafmesh_connect") {
      return iotHubRefusal(404, 404103, "Timed out waiting for device to connect.");
    }
    const rung = ringSchema.safeParse(payload);
    if (rung.success) {
      const { leafmesh: body } = rung.data;
      // A method is over with its waits: what was not connected by then is never given it.
      const ttlSeconds = connectTimeoutInSeconds + responseTimeoutInSeconds;
      rings.push({ body, to: id, isShown: false, ttlSeconds });
    }
    if (state === "mute") return iotHubRefusal(504, 504101, "Timed out waiting for the response from device.");
    return { status: 200, body: { status: rung.success ? state : 400, payload: null } };
  };

  const server = await startVendorServer({ hosts: [host], handle: invoke });
  return {
    server,
    rings,
    purposeOf: ({ path }) => (PROBE_PATH.test(path) ? "check" : "ring"),
    close: () => server.close(),
  };
}

function unauthorized(verdict: SignatureVerdict): VendorReply {
  if ("flaw" in verdict && verdict.flaw === "expired") {
    return namedIotHubRefusal(401, "IotHubUnauthorized", "The authorization token is expired");
  }
  return namedIotHubRefusal(401, "IotHubUnauthorizedAccess", "Unauthorized");
}

const TRACKING = "2ce04a2d881c4010aaf5f6cfacd2ee95-G:0-TimeStamp:01/15/2027 08:00:00";

/** A refusal as hubs mostly word it: a number, in a JSON text within the JSON. */
export function iotHubRefusal(status: number, errorCode: number, message: string): VendorReply {
  const nested = { errorCode, trackingId: TRACKING, message, info: {}, timestampUtc: "2027-01-15T08:00:00.0000000Z" };
  return { status, body: { Message: JSON.stringify(nested), ExceptionMessage: "" } };
}

/** A refusal as other operations word it: a name in a header and in a text. */
export function namedIotHubRefusal(status: number, name: string, message: string): VendorReply {
  return {
    status,
    headers: { "iothub-errorcode": name },
    body: { Message: `ErrorCode:${name};${message}`, ExceptionMessage: `Tracking ID:${TRACKING}` },
  };
}
