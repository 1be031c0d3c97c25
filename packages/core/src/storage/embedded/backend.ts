import type { Clock, Logger } from "@leafmesh/protocol";
import { type Backend, StorageError, type Write } from "../contract.ts";
import { createBus } from "./bus.ts";
import { type Checkpoints, createCheckpoints } from "./checkpoints.ts";
import { type Committer, createCommitter } from "./committer.ts";
import { IN_MEMORY, type OpenedDatabase, openDatabase } from "./database.ts";
import { toStorageError } from "./errors.ts";
import { migrateDatabase } from "./migrations.ts";
import { createPresences } from "./presence.ts";
import { createReads } from "./reads.ts";
import { createRunQueue } from "./run-queue.ts";
import { createPrepare } from "./statements.ts";
import { prepareDeclareExecutor } from "./write-statements.ts";
import { type Announced, createWriter } from "./writes.ts";

export interface EmbeddedBackendOptions {
  /** The database file, or `:memory:` for a store that dies with the process. */
  readonly path: string;
  /**
   * `false` (the default of mesh.yaml): a commit survives the death of the process; the last ones may be lost when
   * the machine loses power. `true`: every commit is on the disk before it resolves.
   */
  readonly durable: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface OpenStore {
  readonly opened: OpenedDatabase;
  readonly reads: ReturnType<typeof createReads>;
  readonly committer: Committer;
  readonly checkpoints: Checkpoints | undefined;
  probe(): void;
  declareExecutor(sessionId: string): void;
}

/**
 * Storage in one SQLite file, with the queue and the bus inside the process. Making it touches nothing; `migrate`
 * opens the file, takes it for this process alone and brings its schema up to date.
 */
export function createEmbeddedBackend(options: EmbeddedBackendOptions): Backend {
  const { logger } = options;
  const bus = createBus(logger);
  const presences = createPresences(options.clock);
  const queue = createRunQueue(logger);
  let store: OpenStore | undefined;
  let closed = false;

  const open = (): OpenStore => {
    if (store) return store;
    if (closed) throw new StorageError("unavailable", `the store ${options.path} is closed`);
    throw new Error("the store is used before migrate()");
  };

  /** Runs `use` on the open store; what SQLite throws becomes a {@link StorageError}. */
  const using = async <Result>(use: (store: OpenStore) => Result | Promise<Result>): Promise<Result> => {
    const current = open();
    try {
      return await use(current);
    } catch (thrown) {
      const error = toStorageError(thrown, current.opened.file);
      if (error instanceof StorageError && error.code === "full") current.checkpoints?.outOfSpace();
      throw error;
    }
  };

  return {
    kind: "embedded",
    queue,

    async migrate() {
      if (store) return;
      if (closed) throw new StorageError("unavailable", `the store ${options.path} is closed`);
      store = openStore(options, bus.publish);
    },
    probe: () => using((store) => store.probe()),
    commit: (writes) => using((store) => store.committer.commit(writes)),

    session: (id) => using((store) => store.reads.session(id)),
    sessionByKey: (owner, key) => using((store) => store.reads.sessionByKey(owner, key)),
    sessions: (query) => using((store) => store.reads.sessions(query)),
    countOpenSessions: (owner) => using((store) => store.reads.countOpenSessions(owner)),
    idleSessions: (before, limit) => using((store) => store.reads.idleSessions(before, limit)),
    devices: (sessionId) => using((store) => store.reads.devices(sessionId)),
    messages: (sessionId, query) => using((store) => store.reads.messages(sessionId, query)),
    run: (id) => using((store) => store.reads.run(id)),
    runs: (query) => using((store) => store.reads.runs(query)),
    wait: (id) => using((store) => store.reads.wait(id)),
    waits: (query) => using((store) => store.reads.waits(query)),
    call: (id) => using((store) => store.reads.call(id)),
    calls: (query) => using((store) => store.reads.calls(query)),
    offers: (callId) => using((store) => store.reads.offers(callId)),
    events: (sessionId, page) => using((store) => store.reads.events(sessionId, page)),
    lastEventSeq: (sessionId) => using((store) => store.reads.lastEventSeq(sessionId)),
    upload: (id) => using((store) => store.reads.upload(id)),
    frames: (runId, page) => using((store) => store.reads.frames(runId, page)),
    tools: () => using((store) => store.reads.tools()),
    tool: (slug) => using((store) => store.reads.tool(slug)),
    dueCallbacks: (now, limit) => using((store) => store.reads.dueCallbacks(now, limit)),
    idempotency: (owner, key) => using((store) => store.reads.idempotency(owner, key)),

    attachStream: (sessionId, { executor }) =>
      using((store) => {
        if (executor) store.declareExecutor(sessionId);
        return presences.attach(sessionId, executor, () => bus.publishPresence(sessionId));
      }),
    presence: (sessionId) => using((store) => presences.of(sessionId, store.reads.executorDeclared(sessionId))),

    subscribe: bus.subscribe,
    publishTransient: bus.publishTransient,
    subscribeRun: bus.subscribeRun,

    async close() {
      closed = true;
      await queue.stop();
      const closing = store;
      store = undefined;
      if (!closing) return;
      closing.committer.flush();
      await closing.checkpoints?.close();
      closing.opened.close();
    },
  };
}

function openStore(options: EmbeddedBackendOptions, publish: (announced: Announced) => void): OpenStore {
  const { clock, logger } = options;
  const opened = openDatabase(options.path, { durable: options.durable });
  const { database, file } = opened;
  try {
    migrateDatabase(database, file, clock);
    const prepare = createPrepare(database);
    const checkpoints =
      file === IN_MEMORY
        ? undefined
        : createCheckpoints({
            database,
            file,
            durable: options.durable,
            clock,
            logger,
            hold: () => committer.hold(),
            release: () => committer.release(),
          });
    const declareExecutor = prepareDeclareExecutor(prepare);
    // A value that changes: SQLite does not write a row that stays as it is.
    const probe = database.prepare(
      "insert into probe (id, count) values (1, 1) on conflict (id) do update set count = count + 1",
    );
    const committer = createCommitter({
      database,
      writer: createWriter(prepare),
      onCommitted(writes, announced) {
        checkpoints?.written(pagesOf(writes));
        if (writes.some(erases)) checkpoints?.erased();
        publish(announced);
      },
    });
    return {
      opened,
      reads: createReads(prepare),
      checkpoints,
      committer,
      declareExecutor(id) {
        if (declareExecutor.run({ id }) > 0) checkpoints?.written(1);
      },
      probe() {
        probe.run();
        checkpoints?.written(1);
      },
    };
  } catch (error) {
    opened.close();
    throw toStorageError(error, file);
  }
}

/**
 * About how many pages of the log a transaction filled: new rows of a table lie together, so the kinds of writes count and
 * not the writes, and the content of uploads.
 */
function pagesOf(writes: readonly Write[]): number {
  const kinds = new Set<Write["kind"]>();
  let pages = 0;
  for (const write of writes) {
    kinds.add(write.kind);
    if (write.kind === "upload.create") pages += write.upload.sealedContent.length / 4096;
  }
  return pages + PAGES_PER_KIND * kinds.size;
}

/** A table and its indexes. */
const PAGES_PER_KIND = 4;

/** Whether the write deletes sealed push tokens or uploads. */
function erases(write: Write): boolean {
  return write.kind === "session.end" || write.kind === "devices.replace";
}
