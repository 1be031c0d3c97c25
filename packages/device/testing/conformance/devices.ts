/** Devices of a conformance test, each with a link of its own that can be cut, found by the room that they are in. */
import type { Ring } from "@leafmesh/protocol";
import type { Connector } from "../../src/connector.ts";

/** A connector over a link that can be cut. */
export interface Link {
  readonly connector: Connector;
  /** The network is gone without a word, and nothing gets through until `restore`. */
  cut(): void;
  restore(): void;
  close(): Promise<void> | void;
}

export interface Devices<Of extends Link> {
  /** For the suite: each join has a link of its own. */
  connector(): Connector;
  /** The device that came first into the room of this ring. */
  in(ring: Ring): Of;
  cut(ring: Ring, how?: { readonly forGood: boolean }): void;
  close(): Promise<void>;
}

export function createDevices<Of extends Link>(providers: readonly string[], connect: () => Promise<Of>): Devices<Of> {
  const all: Of[] = [];
  const byRoom = new Map<string, Of>();
  const linked = async (): Promise<Of> => {
    const link = await connect();
    all.push(link);
    return link;
  };
  const deviceIn = ({ join }: Ring): Of => {
    const device = byRoom.get(join.room);
    if (!device) throw new Error("no device has joined this room");
    return device;
  };
  return {
    connector: () => ({
      providers,
      async join(ring, options) {
        const link = await linked();
        const seat = await link.connector.join(ring, options);
        if (!byRoom.has(ring.join.room)) byRoom.set(ring.join.room, link);
        return seat;
      },
      refuse: async (ring, signal) => (await linked()).connector.refuse(ring, signal),
    }),
    in: deviceIn,
    cut(ring, how) {
      const device = deviceIn(ring);
      device.cut();
      if (!how?.forGood) device.restore();
    },
    async close() {
      await Promise.all(all.map((link) => link.close()));
    },
  };
}
