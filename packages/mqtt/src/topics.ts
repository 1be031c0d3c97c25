/** Topic names: what may be published to, and where the topics of a room are. */
import { utf8Length } from "@leafmesh/protocol";

/** A topic's length is written in two bytes. */
export const MAX_TOPIC_BYTES = 65_535;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * What is wrong with `topic` as the name of one exact topic, or `undefined` when nothing is. Wildcards and NUL are
 * forbidden by MQTT, a leading `$` is the broker's own; empty levels and control characters are legal there and
 * refused here, since access rules are easily wrong about them.
 * https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html (section 4.7)
 */
export function topicIssue(topic: string): string | undefined {
  if (topic === "") return "must not be empty";
  if (/[+#]/.test(topic)) return "must be one exact topic, without the wildcards + and #";
  if (topic.startsWith("$")) return "must not start with $, which is reserved for the broker";
  if (CONTROL.test(topic)) return "must not hold control characters";
  if (topic.split("/").includes("")) return "must not have empty levels: no / at the start, the end or twice in a row";
  if (!topic.isWellFormed()) return "must be valid Unicode";
  if (utf8Length(topic) > MAX_TOPIC_BYTES) return `must be at most ${MAX_TOPIC_BYTES} bytes`;
  return undefined;
}

/** The three topics of one room. Each side may write only its own; see `infra/mosquitto`. */
export interface RoomTopics {
  /** mesh → device */
  readonly down: string;
  /** device → mesh */
  readonly up: string;
  /** device → mesh, retained: whether the device is there */
  readonly presence: string;
}

/** `<prefix>/room/<room>/d/<device>`: the device has a level of its own, so that one access rule covers every room. */
export function roomBase(prefix: string, room: string, deviceId: string): string {
  return `${prefix}/room/${room}/d/${deviceId}`;
}

export function roomTopics(base: string): RoomTopics {
  return { down: `${base}/down`, up: `${base}/up`, presence: `${base}/presence` };
}
