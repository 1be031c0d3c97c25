/** What both ends of a room use. Nothing here needs Node: the device kit runs it in a browser. */
export { type BrokerAddress, isLoopback, type MqttScheme, type ParsedAddress, parseBrokerAddress } from "./address.ts";
export { MqttFailure, type MqttFailureKind, mayPass } from "./failure.ts";
export { createInbox, type Inbox } from "./inbox.ts";
export type { CreateClient, Incoming, Link, LinkDependencies, MqttVersion, Will } from "./link.ts";
export { OLD_VERSION_WARNING, type OpenSettings, openNewestLink } from "./open.ts";
export {
  ACK_TIMEOUT_MS,
  type Outgoing,
  type Published,
  type PublishOptions,
  packetBytes,
} from "./publisher.ts";
export { SESSION_TAKEN_OVER } from "./reasons.ts";
export {
  createOpener,
  createSealer,
  FRAME_OVERHEAD_BYTES,
  importRoomKey,
  newRoomKey,
  type Opened,
  type Opener,
  type RoomKey,
  type Sealer,
} from "./room-codec.ts";
export {
  type Presence,
  parsePresence,
  RETAINED_SECONDS,
  SESSION_SECONDS,
  WILL_DELAY_SECONDS,
} from "./room-messages.ts";
export { MAX_TOPIC_BYTES, type RoomTopics, roomBase, roomTopics, topicIssue } from "./topics.ts";
