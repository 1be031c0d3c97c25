/** What the broker tells the mesh about whether the device is there. */
import {
  createSealer,
  type Link,
  type Presence,
  type Published,
  RETAINED_SECONDS,
  type RoomKey,
  WILL_DELAY_SECONDS,
  type Will,
} from "@leafmesh/mqtt/wire";
import type { Capability } from "@leafmesh/protocol";

export interface DevicePresence {
  /** For one connection: what to publish when it is made, and what the broker publishes when it is lost. */
  prepare(capabilities: readonly Capability[] | undefined): Promise<{ joined: Uint8Array; will: Will }>;
  publish(link: Link, payload: Uint8Array): Promise<Published>;
  /** Says that the device will not come back, and ends the link. Never rejects. */
  goodbye(link: Link): Promise<void>;
  /** Takes back a presence that nobody is there to clear, and ends the link. Never rejects. */
  withdraw(link: Link): Promise<void>;
}

export function createPresence(key: RoomKey, topic: string): DevicePresence {
  const sealer = createSealer(key, topic);
  const seal = (presence: Presence): Promise<Uint8Array> => sealer.seal(JSON.stringify(presence));

  /** Retained, so that a mesh that comes back later hears it too. Under 3.1.1 it would stay for good, so it is not. */
  const publish = (link: Link, payload: Uint8Array): Promise<Published> => {
    const retained = link.version === 5 ? { retain: true, expirySeconds: RETAINED_SECONDS } : {};
    return link.publish({ topic, payload, ...retained });
  };

  return {
    async prepare(capabilities) {
      const joined = await seal({ type: "joined", ...(capabilities ? { capabilities: [...capabilities] } : {}) });
      const payload = await seal({ type: "left", reason: "lost" });
      return { joined, will: { topic, payload, delaySeconds: WILL_DELAY_SECONDS, expirySeconds: RETAINED_SECONDS } };
    },
    publish,
    async goodbye(link) {
      await publish(link, await seal({ type: "left", reason: "left" }));
      await link.end();
    },
    async withdraw(link) {
      await link.publish({ topic, payload: new Uint8Array(), retain: true });
      await link.end();
    },
  };
}
