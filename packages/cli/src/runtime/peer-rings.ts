/** Rings devices over the sockets of whichever process of the mesh they are connected to. */

import type { Backend } from "@leafmesh/core";
import { DEFAULT_DIRECT_LIMITS, type DirectDelivery, type DirectRing, type DirectRinger } from "@leafmesh/notifiers";
import type { Clock, NewId, Timer } from "@leafmesh/protocol";
import * as z from "zod";

type Peers = NonNullable<Backend["peers"]>;

const RING = "direct.ring";
const RUNG = "direct.rung";

const ringSchema = z.object({
  id: z.string(),
  ring: z.object({ deviceId: z.string(), tokenHash: z.string(), askId: z.string(), body: z.string() }),
});
const rungSchema = z.object({ id: z.string(), delivery: z.enum(["received", "written", "busy"]) });

/** The device's process answers within this time beyond what its device may take. */
const WAY_MS = 1_000;

export interface PeerRings extends DirectRinger {
  close(): void;
}

/**
 * `hub` holds this process's sockets. A ring that finds none there is told to the other processes, with the hash of the
 * push token and never the token: the process that holds the device's socket rings it and says so.
 */
export function createPeerRings(hub: DirectRinger, peers: Peers, clock: Clock, newId: NewId): PeerRings {
  const waiting = new Map<string, (delivery: DirectDelivery) => void>();
  const closing = new AbortController();

  const onRing = async (body: Readonly<Record<string, unknown>>): Promise<void> => {
    const { data } = ringSchema.safeParse(body);
    if (!data) return;
    const delivery = await hub.ring(data.ring, closing.signal);
    if (delivery !== "no_socket") peers.tell(RUNG, { id: data.id, delivery });
  };
  const stopListening = [
    peers.listen(RING, (body) => void onRing(body).catch(() => {})),
    peers.listen(RUNG, (body) => {
      const { data } = rungSchema.safeParse(body);
      if (data) waiting.get(data.id)?.(data.delivery);
    }),
  ];

  const askPeers = (ring: DirectRing, signal: AbortSignal): Promise<DirectDelivery> =>
    new Promise((resolve) => {
      const id = newId("ring");
      let timer: Timer | undefined;
      const end = (delivery: DirectDelivery): void => {
        timer?.cancel();
        waiting.delete(id);
        signal.removeEventListener("abort", giveUp);
        resolve(delivery);
      };
      const giveUp = (): void => end("no_socket");
      timer = clock.schedule(2 * DEFAULT_DIRECT_LIMITS.ackWithinMs + WAY_MS, giveUp);
      waiting.set(id, end);
      signal.addEventListener("abort", giveUp);
      if (!peers.tell(RING, { id, ring })) giveUp();
    });

  return {
    async ring(ring, signal) {
      const here = await hub.ring(ring, signal);
      if (here !== "no_socket" || signal.aborted || (await peers.count().catch(() => 1)) < 2) return here;
      return askPeers(ring, signal);
    },
    close() {
      closing.abort();
      for (const stop of stopListening) stop();
      for (const end of [...waiting.values()]) end("no_socket");
    },
  };
}
