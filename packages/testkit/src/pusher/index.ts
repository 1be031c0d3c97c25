export type { ClientEvent as PusherClientEvent } from "./protocol.ts";
export {
  PUSHER_REFUSALS,
  type PusherApp,
  type PusherDouble,
  type PusherDoubleOptions,
  type PusherRefusal,
  startPusherDouble,
} from "./server.ts";
