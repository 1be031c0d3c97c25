import type { Logger } from "@leafmesh/protocol";
import type { Peers } from "../contract.ts";
import type { Database } from "./database.ts";
import { countAlive } from "./processes.ts";
import type { Wire } from "./wire.ts";

export interface PeersOptions {
  readonly wire: Wire;
  readonly logger: Logger;
  database(): Promise<Database>;
}

/** The other processes, and what this one was told by them. */
export interface PeerRegister extends Peers {
  heard(topic: string, body: Readonly<Record<string, unknown>>): void;
}

export function createPeers({ wire, logger, database }: PeersOptions): PeerRegister {
  type Listener = Parameters<Peers["listen"]>[1];
  const listeners = new Map<string, Set<Listener>>();

  return {
    tell: (topic, body) => wire.send({ kind: "peer", topic, body }),

    listen(topic, listener) {
      const ofTopic = listeners.get(topic) ?? new Set();
      const own: Listener = (body) => listener(body);
      listeners.set(topic, ofTopic.add(own));
      return () => void ofTopic.delete(own);
    },

    heard(topic, body) {
      for (const listener of [...(listeners.get(topic) ?? [])]) {
        try {
          listener(body);
        } catch (error) {
          logger.error("a listener to the other processes threw", { topic, error });
        }
      }
    },

    async agree(name, value) {
      const open = await database();
      await open
        .insertInto("agreements")
        .values({ name, value })
        .onConflict((conflict) => conflict.column("name").doNothing())
        .execute();
      const agreed = await open
        .selectFrom("agreements")
        .select("value")
        .where("name", "=", name)
        .executeTakeFirstOrThrow();
      return agreed.value;
    },

    count: async () => countAlive(await database()),
  };
}
