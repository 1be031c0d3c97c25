/**
 * Brings numbered items (events of a session, frames of a run) to listeners: each number once and in order, whichever
 * process stored it. What is heard of other processes is only how far they are; the items are read from the store.
 */
import type { Logger } from "@leafmesh/protocol";
import { createTopics, type Topics } from "../embedded/topics.ts";

export interface FollowersOptions<Item, Listener extends object> {
  readonly logger: Logger;
  /** For the log: `session_id`, `run_id`. */
  readonly idName: string;
  seqOf(item: Item): number;
  deliver(listener: Listener, items: readonly Item[]): void;
  /** In order, from the first after `after`. */
  read(id: string, after: number, limit: number): Promise<readonly Item[]>;
  /** The newest number of each; one that has none is left out. */
  newest(ids: readonly string[]): Promise<ReadonlyMap<string, number>>;
}

export interface Followers<Item, Listener> {
  subscribe(id: string, listener: Listener): () => void;
  /**
   * Resolves when every listener's place is known. Whatever reads or writes the store awaits it first: what it finds
   * there, or leaves there, is then either what a new listener is told of or older than its place.
   */
  placed(): Promise<void> | undefined;
  /** This process stored these. */
  stored(id: string, items: readonly Item[]): void;
  /** Another process has stored items up to `seq`. */
  heard(id: string, seq: number): void;
  /** Looks after every topic that is listened to, because word of some may have been lost. */
  catchUp(): Promise<void>;
  /** Calls the listeners with something that has no number, after the items that are on their way. */
  call(id: string, call: (listener: Listener) => void): void;
}

const PAGE = 500;
/** Calls without a number that wait behind items which are being read. */
const MOST_HELD = 1_000;

interface Follower {
  listeners: number;
  /** Everything up to here was delivered, or was stored before the first listener came. */
  cursor: number | undefined;
  /** The newest number that is known of. */
  newest: number;
  isReading: boolean;
  held: (() => void)[];
}

export function createFollowers<Item, Listener extends object>(
  options: FollowersOptions<Item, Listener>,
): Followers<Item, Listener> {
  const { logger, idName, seqOf, deliver, read } = options;
  const topics: Topics<Listener> = createTopics((id, error) =>
    logger.error("a listener threw", { [idName]: id, error }),
  );
  const followers = new Map<string, Follower>();
  let placing: Promise<void> | undefined;
  let isAnyUnplaced = false;

  const bring = (id: string, follower: Follower, items: readonly Item[]): void => {
    const last = items.at(-1);
    if (last === undefined) return;
    follower.cursor = seqOf(last);
    follower.newest = Math.max(follower.newest, follower.cursor);
    topics.deliver(id, (listener) => deliver(listener, items));
  };

  const readOn = async (id: string, follower: Follower): Promise<void> => {
    if (follower.isReading || follower.cursor === undefined || follower.newest <= follower.cursor) return;
    follower.isReading = true;
    try {
      while (follower.newest > follower.cursor && followers.get(id) === follower) {
        const items = await read(id, follower.cursor, PAGE);
        if (items.length === 0) break;
        bring(id, follower, items);
      }
    } catch (error) {
      logger.warn("events could not be read; it is tried again", { [idName]: id, error });
    } finally {
      follower.isReading = false;
      for (const call of follower.held.splice(0)) call();
    }
  };

  const place = async (): Promise<void> => {
    const unplaced = [...followers].filter(([, follower]) => follower.cursor === undefined);
    isAnyUnplaced = false;
    try {
      const newest = unplaced.length === 0 ? new Map() : await options.newest(unplaced.map(([id]) => id));
      for (const [id, follower] of unplaced) {
        follower.cursor = newest.get(id) ?? 0;
        void readOn(id, follower);
      }
    } catch (error) {
      isAnyUnplaced = true;
      throw error;
    }
  };

  const placed = (): Promise<void> | undefined => {
    if (!isAnyUnplaced) return placing;
    const earlier = placing;
    const current = (earlier ? earlier.catch(() => {}).then(place) : place()).finally(() => {
      if (placing === current) placing = undefined;
    });
    placing = current;
    return current;
  };

  /** Places a listener that reads nothing, too. If it fails, whoever uses the store next tries it again. */
  const placeSoon = (): void => {
    isAnyUnplaced = true;
    queueMicrotask(() => {
      try {
        placed()?.catch(() => {});
      } catch {
        // The store is not open, or not any more.
      }
    });
  };

  return {
    subscribe(id, listener) {
      let follower = followers.get(id);
      if (!follower) {
        follower = { listeners: 0, cursor: undefined, newest: 0, isReading: false, held: [] };
        followers.set(id, follower);
        placeSoon();
      }
      const own = follower;
      own.listeners++;
      const unsubscribe = topics.subscribe(id, listener);
      let isSubscribed = true;
      return () => {
        if (!isSubscribed) return;
        isSubscribed = false;
        unsubscribe();
        if (--own.listeners === 0 && followers.get(id) === own) followers.delete(id);
      };
    },

    placed,

    stored(id, items) {
      const follower = followers.get(id);
      const [first] = items;
      const last = items.at(-1);
      if (!follower || first === undefined || last === undefined) return;
      const isNext = follower.cursor !== undefined && seqOf(first) === follower.cursor + 1;
      if (isNext && !follower.isReading) return bring(id, follower, items);
      follower.newest = Math.max(follower.newest, seqOf(last));
      void readOn(id, follower);
    },

    heard(id, seq) {
      const follower = followers.get(id);
      if (!follower) return;
      follower.newest = Math.max(follower.newest, seq);
      void readOn(id, follower);
    },

    async catchUp() {
      const ids = [...followers.keys()];
      if (ids.length === 0) return;
      for (const [id, seq] of await options.newest(ids)) this.heard(id, seq);
    },

    call(id, call) {
      const follower = followers.get(id);
      if (!follower) return;
      if (!follower.isReading) topics.deliver(id, call);
      else if (follower.held.length < MOST_HELD) follower.held.push(() => topics.deliver(id, call));
    },
  };
}
