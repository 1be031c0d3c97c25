import type { Clock, Logger } from "@leafmesh/protocol";
import { sql } from "kysely";
import type { Parked, RunInHand, RunQueue, WorkDone } from "../contract.ts";
import { JOBS_SCHEMA } from "./address.ts";
import type { ClaimRegister } from "./claims.ts";
import type { Database } from "./database.ts";
import type { FetchedJob, Jobs } from "./jobs.ts";
import { NOW_MS } from "./processes.ts";

export interface SharedRunQueue extends RunQueue {
  /** There may be work: looks, if there is room for it. */
  wake(): void;
  /** Says that the runs in hand are under way, and lets go of those that were taken over. Call it at every beat. */
  beat(): Promise<void>;
  takeUp(): Promise<number>;
}

export interface RunQueueOptions {
  readonly processId: string;
  readonly jobs: Jobs;
  /** Asked when it is needed: the backend may not be open yet. */
  database(): Database;
  readonly claims: ClaimRegister;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Tells the other processes that there is work. */
  announce(): void;
  /** Whether the backend is closed: nothing can be stored any more. */
  isClosed(): boolean;
}

interface Held {
  readonly job: FetchedJob;
  readonly lost: AbortController;
  done: Promise<void>;
  /** Waits for something else than a worker, or for a worker to be free again. */
  isParked: boolean;
}

interface Worker {
  readonly concurrency: number;
  readonly work: (run: RunInHand) => Promise<WorkDone>;
}

/** A run that was stored this long ago and is in no queue was left by a process that died before it pushed it. */
const FORGOTTEN_AFTER_MS = 2_000;
const SETTLE_AGAIN_MS = 1_000;

/** Runs that wait for a worker of any process. */
export function createSharedRunQueue(options: RunQueueOptions): SharedRunQueue {
  const { processId, jobs, database, claims, clock, logger, announce, isClosed } = options;
  const inHand = new Set<Held>();
  /** Of runs that were parked and need a worker again: given one before other runs are fetched. */
  const back: (() => void)[] = [];
  let worker: Worker | undefined;
  let claimed = 0;
  let isTaking = false;
  let isAwake = false;

  const settle = async (job: FetchedJob, done: Exclude<WorkDone, Parked>): Promise<void> => {
    for (;;) {
      try {
        await (done === "unfinished" ? jobs.giveBack(job) : jobs.complete(job));
        if (done === "unfinished") announce();
        return;
      } catch (error) {
        if (isClosed()) return;
        logger.warn("a run's job could not be settled; it is tried again", { run_id: job.data.runId, error });
        await new Promise<void>((resolve) => clock.schedule(SETTLE_AGAIN_MS, resolve));
      }
    }
  };

  const atWork = (): number => {
    let count = 0;
    for (const { isParked } of inHand) if (!isParked) count++;
    return count;
  };

  /** Resolves when the run is at work again. */
  const park = async (held: Held, parked: Parked, concurrency: number): Promise<void> => {
    held.isParked = true;
    goOn(concurrency);
    wake();
    await new Promise<void>((resolve) => parked.onAwake(resolve));
    await new Promise<void>((resolve) => {
      back.push(() => {
        held.isParked = false;
        resolve();
      });
      goOn(concurrency);
    });
  };

  const goOn = (concurrency: number): void => {
    while (back.length > 0 && atWork() < concurrency) back.shift()?.();
  };

  const perform = async (held: Held, { work, concurrency }: Worker, claim: string): Promise<void> => {
    const { job, lost } = held;
    const { runId, sessionId } = job.data;
    claims.add(runId, claim, () => lost.abort());
    let done: Exclude<WorkDone, Parked>;
    try {
      for (;;) {
        const end = await work({ runId, sessionId, signal: lost.signal });
        if (typeof end !== "object") {
          done = end;
          break;
        }
        await park(held, end, concurrency);
      }
    } catch (error) {
      logger.error("a run's work was rejected, which it must never be", { run_id: runId, error });
    }
    claims.remove(runId, claim);
    if (!lost.signal.aborted) await settle(job, done);
    inHand.delete(held);
    goOn(concurrency);
    wake();
  };

  /** Writes into the sessions who drives their runs from now on. */
  const claimSessions = async (fetched: readonly FetchedJob[], claim: string): Promise<void> => {
    const ids = fetched.map(({ data }) => data.sessionId);
    await database().updateTable("sessions").set({ driver: claim }).where("id", "in", ids).execute();
  };

  const takeSome = async (current: Worker): Promise<boolean> => {
    const room = current.concurrency - atWork();
    if (room <= 0) return false;
    const fetched = await jobs.fetch(room);
    if (fetched.length === 0) return false;
    const claim = `${processId} ${++claimed}`;
    try {
      if (worker !== current) throw new Error("the queue was stopped while jobs were fetched");
      await claimSessions(fetched, claim);
    } catch (error) {
      await Promise.all(fetched.map((job) => settle(job, "unfinished")));
      if (worker === current) throw error;
      return false;
    }
    for (const job of fetched) {
      // An earlier attempt of the same job was taken for dead: this process did not beat in time.
      for (const earlier of inHand) if (earlier.job.id === job.id) earlier.lost.abort();
      const held: Held = { job, lost: new AbortController(), done: Promise.resolve(), isParked: false };
      inHand.add(held);
      held.done = perform(held, current, claim);
    }
    return true;
  };

  const wake = (): void => {
    isAwake = true;
    if (!isTaking) void take();
  };

  const take = async (): Promise<void> => {
    isTaking = true;
    try {
      while (isAwake && worker) {
        isAwake = false;
        while (worker && (await takeSome(worker)));
      }
    } catch (error) {
      if (!isClosed()) logger.warn("the queue could not be looked into; it is tried again", { error });
    } finally {
      isTaking = false;
    }
  };

  const push = async (run: { readonly runId: string; readonly sessionId: string }): Promise<void> => {
    if (!(await jobs.isWaiting(run))) await jobs.add(run);
  };

  return {
    async push(run) {
      await push(run);
      wake();
      if (!worker || atWork() >= worker.concurrency) announce();
    },

    async start(starting) {
      if (worker) throw new Error("the run queue is started already");
      if (!(starting.concurrency >= 1)) throw new RangeError("the run queue needs a concurrency of at least 1");
      worker = starting;
      wake();
    },

    async stop() {
      worker = undefined;
      while (isTaking || inHand.size > 0) {
        await Promise.all([...inHand].map(({ done }) => done));
        if (isTaking) await new Promise((resolve) => setImmediate(resolve));
      }
    },

    async takeUp() {
      const { rows } = await sql<{ id: string; session_id: string }>`
        select runs.id, runs.session_id from runs
        where status in ('queued', 'running') and created_at < ${NOW_MS} - ${FORGOTTEN_AFTER_MS}::bigint
          and not exists (
            select 1 from ${sql.table(`${JOBS_SCHEMA}.job`)} as job
            where job.name = 'runs' and job.singleton_key = runs.session_id
              and job.state < 'completed' and job.data ->> 'runId' = runs.id)
        order by created_at, number`.execute(database());
      for (const { id, session_id } of rows) await push({ runId: id, sessionId: session_id });
      if (rows.length > 0) {
        wake();
        announce();
      }
      return rows.length;
    },

    wake,

    async beat() {
      const gone = new Set(await jobs.touch([...inHand].map(({ job }) => job)));
      for (const { job, lost } of inHand) {
        if (!gone.has(job)) continue;
        logger.warn("a run was taken over by another process", { run_id: job.data.runId });
        lost.abort();
      }
      wake();
    },
  };
}
