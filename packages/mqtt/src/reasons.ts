/**
 * Reason codes of MQTT 5 and return codes of MQTT 3.1.1, each with its class and what to do about it.
 * https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html (section 2.4),
 * https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/mqtt-v3.1.1.html (section 3.2.2.3)
 */
import { MqttFailure, type MqttFailureKind } from "./failure.ts";

/** PUBACK: the broker took the message and knows that nobody is subscribed. */
export const NO_MATCHING_SUBSCRIBERS = 16;

/** CONNACK: MQTT 5 is not spoken here; 1 is how a 3.1.1 broker says it. */
export const UNSUPPORTED_PROTOCOL_VERSION: readonly number[] = [1, 132];

/** DISCONNECT: another client came with the same client id. */
export const SESSION_TAKEN_OVER = 142;

/** In answer to what the broker gave the code. */
export type Phase = "connect" | "publish" | "subscribe" | "disconnect";

interface Meaning {
  readonly name: string;
  readonly kind: MqttFailureKind;
  readonly cure?: string;
}

const LOGIN = "check username and password, or the client certificate";
const RIGHTS = "check the broker's access rules for this login";
const LATER = "try again later";

const meanings: Readonly<Record<number, Meaning>> = {
  1: { name: "unacceptable protocol version", kind: "unsupported", cure: "it speaks neither MQTT 5 nor 3.1.1" },
  2: { name: "client identifier rejected", kind: "bad_request", cure: "allow client ids chosen by the client" },
  3: { name: "server unavailable", kind: "unavailable", cure: LATER },
  4: { name: "bad user name or password", kind: "credential", cure: LOGIN },
  5: { name: "not authorized", kind: "credential", cure: LOGIN },
  128: { name: "unspecified error", kind: "unavailable", cure: "see the broker's log" },
  129: { name: "malformed packet", kind: "bad_request" },
  130: { name: "protocol error", kind: "bad_request" },
  131: { name: "implementation specific error", kind: "unavailable", cure: "see the broker's log" },
  132: { name: "unsupported protocol version", kind: "unsupported", cure: "it speaks neither MQTT 5 nor 3.1.1" },
  133: { name: "client identifier not valid", kind: "bad_request", cure: "allow client ids chosen by the client" },
  134: { name: "bad user name or password", kind: "credential", cure: LOGIN },
  135: { name: "not authorized", kind: "credential", cure: RIGHTS },
  136: { name: "server unavailable", kind: "unavailable", cure: LATER },
  137: { name: "server busy", kind: "unavailable", cure: LATER },
  138: { name: "banned", kind: "credential", cure: "this client is banned by the broker's administrator" },
  139: { name: "server shutting down", kind: "unavailable", cure: LATER },
  140: { name: "bad authentication method", kind: "credential", cure: LOGIN },
  141: { name: "keep alive timeout", kind: "unavailable", cure: LATER },
  142: { name: "session taken over", kind: "unavailable", cure: "another client uses the same client id" },
  143: { name: "topic filter invalid", kind: "bad_request", cure: "check room_topic_prefix" },
  144: { name: "topic name invalid", kind: "bad_request", cure: "check room_topic_prefix and the push token" },
  145: { name: "packet identifier in use", kind: "unavailable", cure: LATER },
  146: { name: "packet identifier not found", kind: "unavailable", cure: LATER },
  147: { name: "receive maximum exceeded", kind: "rate", cure: LATER },
  148: { name: "topic alias invalid", kind: "bad_request" },
  149: { name: "packet too large", kind: "too_big", cure: "raise the broker's largest packet" },
  150: { name: "message rate too high", kind: "rate", cure: LATER },
  151: { name: "quota exceeded", kind: "quota", cure: "raise the quota on the broker's side" },
  152: { name: "administrative action", kind: "unavailable", cure: "the broker's administrator ended it" },
  153: { name: "payload format invalid", kind: "bad_request" },
  154: { name: "retain not supported", kind: "unsupported", cure: "rooms need retained messages; allow them" },
  155: { name: "QoS not supported", kind: "unsupported", cure: "rings and rooms need QoS 1; allow it" },
  156: { name: "use another server", kind: "unavailable", cure: "enter the other server's address" },
  157: { name: "server moved", kind: "unavailable", cure: "enter the new server's address" },
  158: { name: "shared subscriptions not supported", kind: "unsupported" },
  159: { name: "connection rate exceeded", kind: "rate", cure: LATER },
  160: { name: "maximum connect time", kind: "unavailable", cure: LATER },
  161: { name: "subscription identifiers not supported", kind: "unsupported" },
  162: { name: "wildcard subscriptions not supported", kind: "unsupported" },
};

const did: Readonly<Record<Phase, string>> = {
  connect: "refused the connection",
  publish: "refused the message",
  subscribe: "refused the subscription",
  disconnect: "ended the connection",
};

/** `broker` is its address for people; `code` came from it and is a failure (1 to 5, or 128 and above). */
export function reasonFailure(code: number, phase: Phase, broker: string): MqttFailure {
  const { name, kind, cure } = meaningOf(code, phase);
  const sentence = `The MQTT broker ${broker} ${did[phase]}: ${code} ${name}${cure ? `; ${cure}` : ""}.`;
  return new MqttFailure(kind, sentence, { code: String(code) });
}

function meaningOf(code: number, phase: Phase): Meaning {
  // A 3.1.1 broker has no other way to say no to a subscription.
  if (phase === "subscribe" && code === 128) return { name: "failure", kind: "credential", cure: RIGHTS };
  if (phase === "connect" && code === 135) return { name: "not authorized", kind: "credential", cure: LOGIN };
  return meanings[code] ?? { name: "unknown reason", kind: "unavailable", cure: "see the broker's log" };
}
