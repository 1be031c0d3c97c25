/** Ways into the rooms of vendors, whose tokens come with the ring. A new one is a line here. */
import type { Connector } from "@leafmesh/device";
import { ablyConnector } from "@leafmesh/device/ably";
import { livekitConnector } from "@leafmesh/device/livekit";
import { pubnubConnector } from "@leafmesh/device/pubnub";
import { pusherConnector } from "@leafmesh/device/pusher";

/** Their libraries are imported when the first ring for them comes. */
export function vendorConnectors(): readonly Connector[] {
  return [ablyConnector(), pubnubConnector(), pusherConnector(), livekitConnector()];
}
