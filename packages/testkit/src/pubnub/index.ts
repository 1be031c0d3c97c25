export {
  PUBNUB_REFUSALS,
  type PubNubDouble,
  type PubNubDoubleOptions,
  type PubNubPhase,
  type PubNubRefusal,
  startPubNubDouble,
} from "./server.ts";
