import type { DatabaseSync } from "node:sqlite";
import type { Clock, Logger, Timer } from "@leafmesh/protocol";
import { createLogCopier } from "./log-copier.ts";

/** After this long without a commit the log is copied into the database. */
const IDLE_MS = 250;
/**
 * While commits keep coming it is copied after about this many pages. Both files are synced then, which takes about as
 * long for many pages as for few, so it is done seldom; the log stays at about 16 MB.
 */
const PAGES_PER_CHECKPOINT = 4000;

/**
 * SQLite copies its write-ahead log into the database inside whichever commit makes the log 1000 pages long, and that
 * commit waits. Here it happens between commits when nothing was written for a while. When much was, a thread copies
 * while commits go on, and only what they wrote meanwhile is left for the moment between two of them.
 * https://sqlite.org/wal.html#ckpt
 */
export interface Checkpoints {
  /** To be called after every transaction with a guess at how many pages it wrote. */
  written(pages: number): void;
  /** To be called after a transaction that deleted what must not stay in any file. */
  erased(): void;
  /** To be called when a write found the disk full: the first one that succeeds again is followed by a checkpoint. */
  outOfSpace(): void;
  /** Copies what is left and cuts the log off. */
  close(): Promise<void>;
}

export function createCheckpoints(options: {
  readonly database: DatabaseSync;
  readonly file: string;
  readonly durable: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The log grows faster than it is copied: no commits, please, until `release`. */
  hold(): void;
  release(): void;
}): Checkpoints {
  const { database, file, clock, logger } = options;
  const passive = database.prepare("pragma wal_checkpoint(passive)");
  const truncate = database.prepare("pragma wal_checkpoint(truncate)");
  let timer: Timer | undefined;
  const copier = createLogCopier(file, options.durable);
  let copying = false;
  let closed = false;
  let pages = 0;
  let pagesAtLastLook = 0;
  /** Erased rows are still readable in old frames of the log until the log is cut off. */
  let mustTruncate = false;
  let failing = false;

  const checkpoint = (): void => {
    pages = 0;
    try {
      const { log, checkpointed } = passive.get() ?? {};
      // Another program that reads the file keeps part of the log alive; then the next look tries again.
      if (mustTruncate && log === checkpointed) mustTruncate = truncate.get()?.busy !== 0;
      if (failing) logger.info("storage checkpoints work again", { file });
      failing = false;
    } catch (error) {
      if (!failing) logger.warn("the write-ahead log could not be copied into the database", { file, error });
      failing = true;
    }
  };

  const look = (): void => {
    timer = undefined;
    const quiet = pages === pagesAtLastLook && !copying;
    if (quiet) checkpoint();
    pagesAtLastLook = pages;
    if (!quiet || mustTruncate || failing) timer = clock.schedule(IDLE_MS, look);
  };

  /** A thread that fails leaves everything to the checkpoint here, which tells what is wrong if it meets that, too. */
  const copyBusyLog = async (): Promise<void> => {
    copying = true;
    pages = 0;
    await copier.copy().catch((error: unknown) => {
      logger.info("the write-ahead log is copied by the event loop: its thread failed", { file, error });
    });
    copying = false;
    if (closed) return;
    checkpoint();
    options.release();
  };

  return {
    written(count) {
      pages += count;
      timer ??= clock.schedule(IDLE_MS, look);
      if (pages < PAGES_PER_CHECKPOINT) return;
      if (copying) options.hold();
      else void copyBusyLog();
    },
    erased() {
      mustTruncate = true;
    },
    outOfSpace() {
      pages = PAGES_PER_CHECKPOINT;
    },
    async close() {
      closed = true;
      timer?.cancel();
      await copier.close();
      mustTruncate = true;
      checkpoint();
    },
  };
}
