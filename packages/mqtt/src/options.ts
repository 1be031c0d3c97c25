/** The fields of an `mqtt` record: the same for the notifier, the room, and one record that is both. */
import { operatorHostIssue } from "@leafmesh/guarded-fetch";
import { secretString } from "@leafmesh/protocol";
import * as z from "zod";
import { type BrokerAddress, isLoopback, parseBrokerAddress } from "./address.ts";
import { belongTogether, certificateIssue, keyIssue } from "./certificates.ts";
import { topicIssue } from "./topics.ts";

/** Longest prefix: a room's topics stay far below MQTT's limit, and the ring below its own. */
const MAX_PREFIX_CHARACTERS = 128;

export const mqttOptions = z.strictObject({
  url: z.string().min(1, "must not be empty").max(512).meta({
    description:
      "Broker address, as the devices reach it too: mqtts://host:8883, wss://host/mqtt, or mqtt:// and ws:// without TLS.",
  }),
  username: z.string().min(1, "must not be empty").optional().meta({ description: "The mesh's own login." }),
  password: secretString("The login's password.").optional(),
  client_cert: z
    .string()
    .min(1, "must not be empty")
    .optional()
    .meta({ description: "Client certificate (PEM), for brokers that authenticate by certificate.", multiline: true }),
  client_key: secretString("Private key (PEM) of the client certificate.", { multiline: true }).optional(),
  ca_cert: z.string().min(1, "must not be empty").optional().meta({
    description: "CA certificate (PEM), only for a private CA. It replaces the public authorities.",
    multiline: true,
  }),
  room_topic_prefix: z
    .string()
    .min(1, "must not be empty")
    .max(MAX_PREFIX_CHARACTERS)
    .optional()
    .meta({ description: "Only when the broker is the room too: rooms are topics below <prefix>/room/." }),
});
export type MqttOptions = z.output<typeof mqttOptions>;

export interface MqttOptionIssue {
  readonly path: readonly string[];
  readonly message: string;
}

/** What a look at the values and at several fields finds; nothing here opens a connection. */
export function mqttOptionIssues(options: MqttOptions): readonly MqttOptionIssue[] {
  const parsed = parseBrokerAddress(options.url);
  if (!parsed.ok) return [issue("url", parsed.issue), ...certificateIssues(options), ...prefixIssues(options)];
  return [
    ...addressIssues(parsed.address),
    ...loginIssues(options, parsed.address),
    ...certificateIssues(options),
    ...tlsIssues(options, parsed.address),
    ...prefixIssues(options),
  ];
}

/** The same, and what a record must have to serve as a room. */
export function mqttRoomIssues(options: MqttOptions): readonly MqttOptionIssue[] {
  const missing = options.room_topic_prefix === undefined;
  return [
    ...mqttOptionIssues(options),
    ...(missing ? [issue("room_topic_prefix", "is needed to use this broker as a room; for example: leafmesh")] : []),
  ];
}

function addressIssues(address: BrokerAddress): readonly MqttOptionIssue[] {
  const forbidden = operatorHostIssue(address.host);
  return forbidden ? [issue("url", forbidden)] : [];
}

function loginIssues(options: MqttOptions, address: BrokerAddress): readonly MqttOptionIssue[] {
  const { username, password } = options;
  const issues: MqttOptionIssue[] = [];
  if (password !== undefined && username === undefined) issues.push(issue("username", "is needed with a password"));
  if ((username !== undefined || password !== undefined) && !address.secure && !isLoopback(address)) {
    const secure = address.scheme === "ws" ? "wss" : "mqtts";
    const message = `would send the login in clear over ${address.scheme}:; use ${secure}:// and the broker's TLS port`;
    issues.push(issue("url", message));
  }
  return issues;
}

function certificateIssues({ client_cert, client_key, ca_cert }: MqttOptions): readonly MqttOptionIssue[] {
  const found: readonly [field: string, message: string | undefined][] = [
    ["ca_cert", ca_cert === undefined ? undefined : certificateIssue(ca_cert)],
    ["client_cert", client_cert === undefined ? undefined : certificateIssue(client_cert)],
    ["client_key", client_key === undefined ? undefined : keyIssue(client_key)],
  ];
  const issues = found.flatMap(([field, message]) => (message === undefined ? [] : [issue(field, message)]));
  if (client_cert !== undefined && client_key === undefined) {
    issues.push(issue("client_key", "is needed with client_cert"));
  } else if (client_key !== undefined && client_cert === undefined) {
    issues.push(issue("client_cert", "is needed with client_key"));
  } else if (client_cert && client_key && issues.length === 0 && !belongTogether(client_cert, client_key)) {
    issues.push(issue("client_key", "does not belong to client_cert: the certificate holds another public key"));
  }
  return issues;
}

/** A field that would have no effect is an error, not a surprise. */
function tlsIssues(options: MqttOptions, address: BrokerAddress): readonly MqttOptionIssue[] {
  if (address.secure) return [];
  const secure = address.scheme === "ws" ? "wss" : "mqtts";
  return (["client_cert", "ca_cert"] as const)
    .filter((field) => options[field] !== undefined)
    .map((field) => issue(field, `has no effect without TLS; use ${secure}:// in url`));
}

function prefixIssues({ room_topic_prefix }: MqttOptions): readonly MqttOptionIssue[] {
  const message = room_topic_prefix === undefined ? undefined : topicIssue(room_topic_prefix);
  return message === undefined ? [] : [issue("room_topic_prefix", message)];
}

function issue(field: string, message: string): MqttOptionIssue {
  return { path: [field], message };
}
