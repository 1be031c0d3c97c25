import { Worker } from "node:worker_threads";

/** Copies the write-ahead log into the database in a thread of its own, so that the event loop does not wait for the disk. */
export interface LogCopier {
  /**
   * Copies what the log holds now. What commits add meanwhile is for a checkpoint between two of them, without which the
   * log would never end. Rejects when the thread or SQLite fails.
   */
  copy(): Promise<void>;
  /** Waits for a copy under way and ends the thread. */
  close(): Promise<void>;
}

/** What the thread is told; anything else ends it. */
type Request = "copy";
/** What the thread says after each request. */
type Reply = { readonly error?: unknown };

/**
 * Starts no thread before the first copy: most processes never write so much. `durable`: the disk is to be synced as the
 * writer of a durable store does it.
 */
export function createLogCopier(file: string, durable: boolean): LogCopier {
  let worker: Worker | undefined;
  let underWay: Promise<void> | undefined;

  const start = (): Worker => {
    // Source text, because a bundle has no file of its own for the thread.
    const started = new Worker(`(${serveCopies})(${JSON.stringify(file)}, ${durable})`, { eval: true, execArgv: [] });
    started.unref();
    // Whoever waits for a reply is told by its own listener.
    started.on("error", forget);
    started.on("exit", forget);
    worker = started;
    return started;
  };
  const forget = (): void => {
    worker = undefined;
  };

  const ask = (thread: Worker): Promise<void> =>
    new Promise((resolve, reject) => {
      const done = (error?: unknown): void => {
        thread.off("message", onReply).off("error", done).off("exit", onExit);
        if (error === undefined) resolve();
        else reject(error);
      };
      const onReply = ({ error }: Reply): void => done(error);
      const onExit = (): void => done(new Error("the thread that copies the log has ended"));
      thread.on("message", onReply).on("error", done).on("exit", onExit);
      thread.postMessage("copy" satisfies Request);
    });

  return {
    copy() {
      underWay ??= ask(worker ?? start()).finally(() => {
        underWay = undefined;
      });
      return underWay;
    },
    async close() {
      worker?.ref();
      await underWay?.catch(() => {});
      await worker?.terminate();
    },
  };
}

/** Runs in the thread, from its text: it may use nothing from outside itself. */
function serveCopies(file: string, durable: boolean): void {
  const { parentPort } = process.getBuiltinModule("node:worker_threads");
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const database = new DatabaseSync(file);
  database.exec(`pragma fullfsync = ${durable ? "on" : "off"}; pragma wal_autocheckpoint = 0`);
  const passive = database.prepare("pragma wal_checkpoint(passive)");
  parentPort?.on("message", () => {
    let reply: Reply = {};
    try {
      passive.get();
    } catch (error) {
      reply = { error };
    }
    parentPort.postMessage(reply);
  });
}
