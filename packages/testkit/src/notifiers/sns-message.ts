/** Judges `Message` and `MessageAttributes` of a publish as SNS and the platform behind it do. Pure. */
import * as z from "zod";
import type { ReceivedRing } from "../suites/notifier/under-test.ts";

export type SnsMessageVerdict =
  | { readonly ring: Omit<ReceivedRing, "to"> }
  /** What SNS says after `Invalid parameter: `. */
  | { readonly refused: string };

const alertSchema = z.strictObject({
  alert: z.strictObject({ title: z.string(), body: z.string() }),
  category: z.string(),
  sound: z.string(),
  "interruption-level": z.enum(["passive", "active", "time-sensitive"]),
  "mutable-content": z.literal(1),
});
const apsSchema = z.union([alertSchema, z.strictObject({ "content-available": z.literal(1) })]);
/** https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages in the wrapper of SNS. */
const firebaseSchema = z.strictObject({
  fcmV1Message: z.strictObject({
    validate_only: z.literal(false).optional(),
    message: z.strictObject({
      data: z.record(z.string().regex(/^(?!from$|message_type$|google\.|gcm\.)/), z.string()),
      android: z.strictObject({
        priority: z.literal("high"),
        ttl: z.string().regex(/^\d+s$/),
        collapse_key: z.string().max(64),
      }),
      apns: z
        .strictObject({
          headers: z.strictObject({
            "apns-push-type": z.enum(["alert", "background"]),
            "apns-priority": z.enum(["5", "10"]),
            "apns-expiration": z.string().regex(/^\d{10}$/),
            "apns-collapse-id": z.string().max(64),
          }),
          payload: z.strictObject({ aps: apsSchema }),
        })
        .optional(),
      webpush: z
        .strictObject({
          headers: z.strictObject({
            TTL: z.string().regex(/^[1-9]\d*$/),
            Urgency: z.literal("high"),
            Topic: z.string().regex(/^[\w-]{1,32}$/),
          }),
        })
        .optional(),
    }),
  }),
});
/** https://developer.amazon.com/docs/adm/send-message.html */
const amazonSchema = z.strictObject({
  data: z.record(z.string(), z.string()),
  consolidationKey: z.string().max(64),
  expiresAfter: z.int().min(1).max(2_678_400),
});
const appleSchema = z.strictObject({
  aps: apsSchema,
  leafmesh: z.string(),
});
const PUSH_MAX_BYTES = 4096;

export function judgeSnsMessage(platform: string, fields: URLSearchParams): SnsMessageVerdict {
  if (fields.get("MessageStructure") !== "json") return { refused: "MessageStructure" };
  const message = z.record(z.string(), z.unknown()).safeParse(parsed(fields.get("Message") ?? ""));
  if (!message.success) return { refused: "Message Structure - JSON message body failed to parse" };
  const { default: otherwise, [platform]: own, ...others } = message.data;
  if (typeof otherwise !== "string") {
    return { refused: "Message Structure - No default entry in JSON message body" };
  }
  // SNS leaves out what is no text, and sends the default to the device: a fault that only shows here.
  if (typeof own !== "string") throw new Error(`no text for ${platform} in a message, so that the default is sent`);
  if (Object.keys(others).length > 0) throw new Error("a message with payloads of other platforms");
  // SNS queues more; the platform would not take it.
  if (Buffer.byteLength(own) > PUSH_MAX_BYTES) throw new Error(`larger than ${platform} takes`);
  const attributes = attributesOf(fields);
  if (!attributes) return { refused: "Message attribute" };
  switch (platform) {
    case "GCM":
      return fromFirebase(parsed(own), attributes);
    case "ADM":
      return fromAmazon(parsed(own), attributes);
    default:
      return fromApple(platform, parsed(own), attributes);
  }
}

type Attributes = ReadonlyMap<string, string>;

/** `undefined` when they are not numbered from 1 without a gap, or of no type. */
function attributesOf(fields: URLSearchParams): Attributes | undefined {
  const found = new Map<string, string>();
  for (let nth = 1; fields.has(`MessageAttributes.entry.${nth}.Name`); nth++) {
    const part = (name: string): string => fields.get(`MessageAttributes.entry.${nth}.${name}`) ?? "";
    if (part("Value.DataType") !== "String" || part("Value.StringValue") === "") return undefined;
    found.set(part("Name"), part("Value.StringValue"));
  }
  const sent = [...fields.keys()].filter((key) => key.startsWith("MessageAttributes.")).length;
  return sent === 3 * found.size ? found : undefined;
}

/** The time that SNS counts down itself, and gives to the platform in place of the payload's. */
function ttlOf(attributes: Attributes, platform: string): number {
  const ttl = attributes.get(`AWS.SNS.MOBILE.${platform}.TTL`) ?? "";
  if (!/^[1-9]\d{0,8}$/.test(ttl)) throw new Error(`no time to live for ${platform}`);
  return Number(ttl);
}

function fromFirebase(json: unknown, attributes: Attributes): SnsMessageVerdict {
  const { data: parts } = firebaseSchema.safeParse(json);
  if (!parts) throw new Error("a payload that Firebase does not take");
  const { data, android, apns } = parts.fcmV1Message.message;
  if (apns) {
    const kind = `${apns.headers["apns-push-type"]} ${apns.headers["apns-priority"]}`;
    const isShown = "alert" in apns.payload.aps;
    // Apple drops a background notification of priority 10, and Firebase does not say so.
    if (kind !== kindOf(isShown) || isShown !== "title" in data) throw new Error(`for Apple's devices: ${kind}`);
  }
  const ttlSeconds = ttlOf(attributes, "FCM");
  if (android.ttl !== `${ttlSeconds}s` || attributes.size > 1) throw new Error("attributes that are not Firebase's");
  return { ring: { ...fromData(data), ttlSeconds, collapseKey: android.collapse_key } };
}

function fromAmazon(json: unknown, attributes: Attributes): SnsMessageVerdict {
  const { data: parts } = amazonSchema.safeParse(json);
  if (!parts) throw new Error("a payload that Amazon Device Messaging does not take");
  const ttlSeconds = ttlOf(attributes, "ADM");
  if (parts.expiresAfter !== ttlSeconds || attributes.size > 1) throw new Error("attributes that are not Amazon's");
  return { ring: { ...fromData(parts.data), ttlSeconds, collapseKey: parts.consolidationKey } };
}

/** Neither shows anything of data: the app does, when it is given what to show. */
function fromData({ leafmesh: body = "", title }: Readonly<Record<string, string>>) {
  return { body, isShown: title !== undefined };
}

function fromApple(platform: string, json: unknown, attributes: Attributes): SnsMessageVerdict {
  const { data: parts } = appleSchema.safeParse(json);
  if (!parts) throw new Error("a payload that Apple does not take");
  const isShown = "alert" in parts.aps;
  const own = (name: string): string | undefined => attributes.get(`AWS.SNS.MOBILE.APNS.${name}`);
  const kind = `${own("PUSH_TYPE")} ${own("PRIORITY")}`;
  const collapseKey = own("COLLAPSE_ID") ?? "";
  if (kind !== kindOf(isShown)) throw new Error(`a notification of Apple's with ${kind}`);
  if (collapseKey === "" || Buffer.byteLength(collapseKey) > 64 || attributes.size !== 4) {
    throw new Error("attributes that are not Apple's");
  }
  return { ring: { body: parts.leafmesh, isShown, ttlSeconds: ttlOf(attributes, platform), collapseKey } };
}

function kindOf(isShown: boolean): string {
  return isShown ? "alert 10" : "background 5";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
