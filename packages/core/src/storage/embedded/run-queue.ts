import type { Logger } from "@leafmesh/protocol";
import type { Parked, RunQueue, WorkDone } from "../contract.ts";

interface QueuedRun {
  readonly runId: string;
  readonly sessionId: string;
}

type Work = (run: QueuedRun) => Promise<WorkDone>;

/**
 * Runs that wait for a worker, in this process: in order of `push` within a session and one at a time, sessions taking
 * turns. It is empty after a restart: the stored runs say what to push again. A run that is waiting already is not
 * queued twice; one in hand is, and runs again once it has ended.
 */
export function createRunQueue(logger: Logger): RunQueue {
  const lanes = new Map<string, QueuedRun[]>();
  const waiting = new Set<string>();
  /** Sessions that have a run waiting and none in hand, the one that waited longest first. */
  const ready = new Set<string>();
  const busy = new Set<string>();
  const inHand = new Set<Promise<void>>();
  /** In hand, and waiting for something else than a worker. */
  let parked = 0;
  let onLastBack = (): void => {};
  /** Were parked and need a worker again. */
  const back: QueuedRun[] = [];
  let worker: { readonly concurrency: number; readonly work: Work } | undefined;
  let isStopping = false;

  const nextRun = (): QueuedRun | undefined => {
    const [sessionId] = ready;
    if (sessionId === undefined || isStopping) return undefined;
    ready.delete(sessionId);
    const lane = lanes.get(sessionId);
    const run = lane?.shift();
    if (lane?.length === 0) lanes.delete(sessionId);
    if (run) {
      waiting.delete(run.runId);
      busy.add(sessionId);
    }
    return run;
  };

  const take = (): void => {
    while (worker && inHand.size < worker.concurrency) {
      const run = back.shift() ?? nextRun();
      if (!run) return;
      begin(run, worker.work);
    }
  };

  const begin = (run: QueuedRun, work: Work): void => {
    const done = perform(work, run).then((end) => {
      inHand.delete(done);
      if (typeof end === "object") park(run, end);
      else {
        busy.delete(run.sessionId);
        if (lanes.has(run.sessionId)) ready.add(run.sessionId);
      }
      take();
    });
    inHand.add(done);
  };

  const park = (run: QueuedRun, waiting: Parked): void => {
    parked++;
    waiting.onAwake(() => {
      parked--;
      back.push(run);
      take();
      if (parked === 0) onLastBack();
    });
  };

  const perform = async (work: Work, run: QueuedRun): Promise<WorkDone> => {
    try {
      return await work(run);
    } catch (error) {
      logger.error("a run's work was rejected, which it must never be", { run_id: run.runId, error });
    }
  };

  return {
    async push({ runId, sessionId }) {
      if (waiting.has(runId)) return;
      waiting.add(runId);
      const lane = lanes.get(sessionId) ?? [];
      lane.push({ runId, sessionId });
      lanes.set(sessionId, lane);
      if (!busy.has(sessionId)) ready.add(sessionId);
      take();
    },
    async start(options) {
      if (worker) throw new Error("the run queue is started already");
      if (!(options.concurrency >= 1)) throw new RangeError("the run queue needs a concurrency of at least 1");
      worker = options;
      isStopping = false;
      take();
    },
    isFree: () => worker !== undefined && !isStopping && inHand.size < worker.concurrency,
    async stop() {
      isStopping = true;
      while (inHand.size + back.length + parked > 0) {
        await (inHand.size > 0 ? Promise.all(inHand) : new Promise<void>((resolve) => (onLastBack = resolve)));
      }
      worker = undefined;
    },
  };
}
