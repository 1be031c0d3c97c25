/** pg-boss, which keeps the jobs: one queue of runs, in order and one at a time within a session. */
import type { Logger } from "@leafmesh/protocol";
import type { Pool } from "pg";
import type { PgBoss } from "pg-boss";
import { JOBS_SCHEMA } from "./address.ts";
import { DEAD_AFTER_MS } from "./processes.ts";

/** `key_strict_fifo`: jobs of one key are handed out in order, the next one when the one before has ended. */
const RUNS = "runs";
/** The longest that pg-boss lets a job take. A run that is still driven then is taken over by whoever fetches it. */
const LONGEST_JOB_SECONDS = 24 * 60 * 60;
const MOST_TAKEOVERS = 1_000_000;
const KEPT_SECONDS = 365 * 24 * 60 * 60;

export interface RunData {
  readonly runId: string;
  readonly sessionId: string;
}

/** A job that this process fetched. `retryCount` tells its attempt from a later one of another process. */
export interface FetchedJob {
  readonly id: string;
  readonly retryCount: number;
  readonly data: RunData;
}

export interface Jobs {
  /** Installs or updates pg-boss's own schema; it takes a lock for that. Must be called before anything else. */
  open(): Promise<void>;
  isWaiting(run: RunData): Promise<boolean>;
  add(run: RunData): Promise<void>;
  fetch(most: number): Promise<readonly FetchedJob[]>;
  /** Says that they are under way; answers those that are not this process's any more. */
  touch(jobs: readonly FetchedJob[]): Promise<readonly FetchedJob[]>;
  complete(job: FetchedJob): Promise<void>;
  /** Gives the job back: it is the first of its session again. */
  giveBack(job: FetchedJob): Promise<void>;
  close(): Promise<void>;
}

export function createJobs(pool: Pool, logger: Logger): Jobs {
  let boss: PgBoss | undefined;
  const opened = (): PgBoss => {
    if (!boss) throw new Error("the jobs are used before open()");
    return boss;
  };

  return {
    async open() {
      const { PgBoss } = await import("pg-boss");
      const opening = new PgBoss({
        db: { executeSql: (text, values) => pool.query(text, values) },
        schema: JOBS_SCHEMA,
        schedule: false,
        registerInstance: false,
        reindex: false,
        monitorVacuum: false,
        superviseIntervalSeconds: 2,
        monitorIntervalSeconds: 2,
        maintenanceIntervalSeconds: 60,
        openTelemetry: { enabled: false },
      });
      opening.on("error", (error) => logger.warn("the job queue met an error; it goes on", { error }));
      opening.on("warning", ({ message, data }) => logger.debug(message, { data }));
      await opening.start();
      await opening.createQueue(RUNS, {
        policy: "key_strict_fifo",
        heartbeatSeconds: DEAD_AFTER_MS / 1000,
        expireInSeconds: LONGEST_JOB_SECONDS,
        retryLimit: MOST_TAKEOVERS,
        retryDelay: 0,
        retentionSeconds: KEPT_SECONDS,
        deleteAfterSeconds: 60,
      });
      boss = opening;
    },

    async isWaiting({ runId, sessionId }) {
      return (await opened().findJobs(RUNS, { key: sessionId, data: { runId }, queued: true, limit: 1 })).length > 0;
    },
    async add({ runId, sessionId }) {
      await opened().send(RUNS, { runId, sessionId }, { singletonKey: sessionId });
    },
    fetch: (most) => opened().fetch<RunData>(RUNS, { batchSize: most, includeMetadata: true }),
    async touch(jobs) {
      if (jobs.length === 0) return [];
      const answer: object = await opened().touch(RUNS, [...jobs]);
      const touched: readonly unknown[] = "settled" in answer && Array.isArray(answer.settled) ? answer.settled : [];
      return jobs.filter((job) => !touched.includes(job.id));
    },
    async complete(job) {
      await opened().complete(RUNS, job);
    },
    async giveBack(job) {
      await opened().fail(RUNS, job, { message: "given back" });
    },
    async close() {
      const closing = boss;
      boss = undefined;
      await closing?.stop({ graceful: false, close: false });
    },
  };
}
