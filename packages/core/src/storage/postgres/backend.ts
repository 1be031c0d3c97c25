import type { Clock, Logger, Secret } from "@leafmesh/protocol";
import { type Backend, type Closable, StorageError } from "../contract.ts";
import { placeOf } from "./address.ts";
import { createBus } from "./bus.ts";
import { createClaims } from "./claims.ts";
import { commitWrites } from "./commit.ts";
import { type Connections, createConnections } from "./database.ts";
import { toStorageError } from "./errors.ts";
import { type Heart, startHeart } from "./heart.ts";
import { createJobs, type Jobs } from "./jobs.ts";
import { type Migrated, migrateDatabase, oneAtATime } from "./migrations.ts";
import { createPeers } from "./peers.ts";
import { createPresences, type Presences } from "./presence.ts";
import { BEAT_MS, beat, buryDead, countAlive, leave } from "./processes.ts";
import { createReads, type Reads } from "./reads.ts";
import { createSharedRunQueue } from "./run-queue.ts";
import { createTransientSender } from "./transients.ts";
import { createWire, type Word } from "./wire.ts";

export interface PostgresBackendOptions {
  /** `postgres://user:password@host:port/database`, with the options that `pg` knows, such as `sslmode`. */
  readonly url: Secret;
  /** Names this process among those that share the database; unique, and new at each start. */
  readonly processId: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** 0 up to 1, for the spread of retries. */
  readonly random?: (() => number) | undefined;
}

export interface PostgresBackend extends Backend {
  /** Versions of the schema before and after {@link Backend.migrate}. */
  readonly migrated: Migrated | undefined;
}

interface OpenStore {
  readonly connections: Connections;
  readonly reads: Reads;
  readonly jobs: Jobs;
  readonly presences: Presences;
  readonly heart: Heart;
  readonly migrated: Migrated;
}

/** How often this process looks for events that it was not told of. */
const CATCH_UP_EVERY_BEATS = 3;

/**
 * Storage in PostgreSQL, which any number of processes may share: state through Kysely, jobs through pg-boss, LISTEN and
 * NOTIFY between the processes. Making it touches nothing; `migrate` connects and brings the schema up to date.
 */
export function createPostgresBackend(options: PostgresBackendOptions): PostgresBackend {
  const { url, processId, clock, logger, random = Math.random } = options;
  const place = placeOf(url);
  const claims = createClaims();
  const underWay = new Set<Promise<unknown>>();
  let store: OpenStore | undefined;
  let opening: Promise<void> | undefined;
  let isClosed = false;
  let isAlone = true;

  const closedError = (): StorageError => new StorageError("unavailable", `the store (${place}) is closed`);
  const open = (): OpenStore => {
    if (isClosed) throw closedError();
    if (!store) throw new Error("the store is used before migrate()");
    return store;
  };

  /** Runs `use` on the open store; what PostgreSQL reports becomes a {@link StorageError}. */
  const using = async <Result>(use: (store: OpenStore) => Promise<Result>): Promise<Result> => {
    const current = open();
    const work = async (): Promise<Result> => {
      try {
        await bus.placed();
        return await use(current);
      } catch (error) {
        throw toStorageError(error, place);
      }
    };
    const promise = work();
    const settled = promise.then(
      () => {},
      () => {},
    );
    underWay.add(settled);
    void settled.then(() => underWay.delete(settled));
    return promise;
  };

  const onWord = (word: Word): void => {
    if (bus.heard(word)) return;
    if (word.kind === "work") queue.wake();
    else if (word.kind === "peer") peers.heard(word.topic, word.body);
  };
  const catchUp = async (): Promise<void> => {
    try {
      await bus.catchUp();
      queue.wake();
    } catch (error) {
      if (!isClosed) logger.warn("events of other processes could not be looked for; it is tried again", { error });
    }
  };
  const wire = createWire({ url, processId, clock, logger, onWord, onReconnected: () => void catchUp() });
  const transients = createTransientSender(
    clock,
    (sessionId, event) => void wire.send({ kind: "transient", id: sessionId, event }),
  );
  const bus = createBus({
    logger,
    store: () => ({ database: open().connections.database, reads: open().reads }),
    say: (word) => void wire.send(word),
    transients: () => (isAlone ? undefined : transients),
  });
  const jobs = (): Jobs => open().jobs;
  const queue = createSharedRunQueue({
    processId,
    jobs: {
      open: () => jobs().open(),
      isWaiting: (run) => using((current) => current.jobs.isWaiting(run)),
      add: (run) => using((current) => current.jobs.add(run)),
      fetch: (most) => using((current) => current.jobs.fetch(most)),
      touch: (held) => using((current) => current.jobs.touch(held)),
      complete: (job) => using((current) => current.jobs.complete(job)),
      giveBack: (job) => using((current) => current.jobs.giveBack(job)),
      close: () => jobs().close(),
    },
    database: () => open().connections.database,
    claims,
    clock,
    logger,
    announce: () => void wire.send({ kind: "work" }),
    isClosed: () => isClosed,
  });
  const peers = createPeers({ wire, logger, database: async () => open().connections.database });

  let beats = 0;
  const onBeat = async (current: OpenStore["connections"]): Promise<void> => {
    try {
      await beat(current.database, processId);
      await queue.beat();
      await wire.check();
      isAlone = (await countAlive(current.database)) < 2;
      if (++beats % CATCH_UP_EVERY_BEATS === 0) {
        await buryDead(current.database);
        await bus.catchUp();
      }
    } catch (error) {
      if (!isClosed) logger.warn(`${place} does not take this process's sign of life`, { error });
    }
  };

  const openStore = async (): Promise<void> => {
    const connections = await createConnections({
      url,
      processId,
      onBroken: (error) => logger.debug("a connection to PostgreSQL broke", { error }),
    });
    const { database, pool } = connections;
    const ownJobs = createJobs(pool, logger);
    try {
      const migrated = await oneAtATime(database, async () => {
        const versions = await migrateDatabase(database, { place, clock });
        await ownJobs.open();
        return versions;
      });
      await wire.open();
      await beat(database, processId);
      isAlone = (await countAlive(database)) < 2;
      store = {
        connections,
        reads: createReads(database),
        jobs: ownJobs,
        presences: createPresences({
          database,
          processId,
          clock,
          onChange: (sessionId) => bus.publishPresence(sessionId),
          onFailure: (error) => logger.warn("a stream that left could not be taken off", { error }),
        }),
        heart: startHeart(clock, BEAT_MS, () => onBeat(connections)),
        migrated,
      };
    } catch (error) {
      await wire.close();
      await ownJobs.close().catch(() => {});
      await connections.close().catch(() => {});
      throw toStorageError(error, place);
    }
  };

  return {
    kind: "postgres",
    queue,
    peers,

    async migrate() {
      if (isClosed) throw closedError();
      opening ??= openStore();
      await opening;
    },
    get migrated() {
      return store?.migrated;
    },
    probe: () =>
      using(async ({ connections }) => {
        await connections.database
          .insertInto("probe")
          .values({ id: 1, count: 1 })
          .onConflict((conflict) =>
            conflict.column("id").doUpdateSet((update) => ({ count: update("probe.count", "+", 1) })),
          )
          .execute();
      }),
    commit: (writes) =>
      using(async ({ connections }) => {
        const { result, announced } = await commitWrites(connections.database, writes, claims, random);
        bus.publish(announced);
        return result;
      }),

    session: (id) => using(({ reads }) => reads.session(id)),
    sessionByKey: (owner, key) => using(({ reads }) => reads.sessionByKey(owner, key)),
    sessions: (query) => using(({ reads }) => reads.sessions(query)),
    countOpenSessions: (owner) => using(({ reads }) => reads.countOpenSessions(owner)),
    idleSessions: (before, limit) => using(({ reads }) => reads.idleSessions(before, limit)),
    devices: (sessionId) => using(({ reads }) => reads.devices(sessionId)),
    messages: (sessionId, query) => using(({ reads }) => reads.messages(sessionId, query)),
    run: (id) => using(({ reads }) => reads.run(id)),
    runs: (query) => using(({ reads }) => reads.runs(query)),
    wait: (id) => using(({ reads }) => reads.wait(id)),
    waits: (query) => using(({ reads }) => reads.waits(query)),
    call: (id) => using(({ reads }) => reads.call(id)),
    calls: (query) => using(({ reads }) => reads.calls(query)),
    offers: (callId) => using(({ reads }) => reads.offers(callId)),
    events: (sessionId, page) => using(({ reads }) => reads.events(sessionId, page)),
    lastEventSeq: (sessionId) => using(({ reads }) => reads.lastEventSeq(sessionId)),
    upload: (id) => using(({ reads }) => reads.upload(id)),
    frames: (runId, page) => using(({ reads }) => reads.frames(runId, page)),
    tools: () => using(({ reads }) => reads.tools()),
    tool: (slug) => using(({ reads }) => reads.tool(slug)),
    dueCallbacks: (now, limit) => using(({ reads }) => reads.dueCallbacks(now, limit)),
    idempotency: (owner, key) => using(({ reads }) => reads.idempotency(owner, key)),

    attachStream: (sessionId, { executor }): Promise<Closable> =>
      using(({ presences }) => presences.attach(sessionId, executor)),
    presence: (sessionId) => using(({ presences }) => presences.of(sessionId)),

    subscribe: bus.subscribe,
    publishTransient: bus.publishTransient,
    subscribeRun: bus.subscribeRun,

    async close() {
      if (isClosed) return;
      await queue.stop();
      isClosed = true;
      const closing = store;
      if (!closing) return;
      transients.close();
      await closing.heart.stop();
      await Promise.all(underWay);
      await leave(closing.connections.database, processId, clock.nowMs()).catch(() => {});
      await closing.jobs.close().catch(() => {});
      await wire.close();
      await closing.connections.close();
    },
  };
}
