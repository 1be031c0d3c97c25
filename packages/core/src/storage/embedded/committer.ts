import type { DatabaseSync } from "node:sqlite";
import type { CommitResult, Write } from "../contract.ts";
import { brokenConstraint } from "./errors.ts";
import type { Announced, Writer } from "./writes.ts";

/** How many commits may share one transaction: bounds how long the event loop stands still for it. */
const LARGEST_GROUP = 128;
/**
 * When commits come from several runs at a time, a group waits this many turns of the event loop for more, unless it has
 * enough: a few microseconds each, and a page that many of them touch is written once. A commit on its own never waits.
 */
const PATIENCE_TURNS = 8;
const ENOUGH = 16;

/**
 * Commits that arrive in one turn of the event loop share one transaction, and so one sync of the disk and one copy of
 * each page that they touch. Each is still all or nothing on its own.
 */
export interface Committer {
  commit(writes: readonly Write[]): Promise<CommitResult>;
  /** Commits wait until {@link Committer.release}. */
  hold(): void;
  release(): void;
  /** Writes what still waits for its group, held or not. */
  flush(): void;
}

export interface CommitterOptions {
  readonly database: DatabaseSync;
  readonly writer: Writer;
  /** Called after each transaction with what it holds, in the order of the commits. */
  onCommitted(writes: readonly Write[], announced: Announced): void;
}

interface Pending {
  readonly writes: readonly Write[];
  resolve(result: CommitResult): void;
  reject(error: unknown): void;
}

/** What became of one commit of a group. */
type Fate = Committed | Refused | { readonly failed: unknown };
type Refused = Extract<CommitResult, { committed: false }>;
type Committed = Announced & { readonly committed: true };

export function createCommitter({ database, writer, onCommitted }: CommitterOptions): Committer {
  const begin = database.prepare("begin immediate");
  const end = database.prepare("commit");
  const savepoint = database.prepare("savepoint one_commit");
  const release = database.prepare("release one_commit");
  const undo = database.prepare("rollback to one_commit");
  let waiting: Pending[] = [];
  let isHeld = false;
  let scheduled: NodeJS.Immediate | undefined;
  let turnsWaited = 0;

  const rollback = (): void => {
    writer.undone();
    if (database.isTransaction) database.exec("rollback");
  };

  const applyAll = (writes: readonly Write[]): Committed | Refused => {
    const announced: Announced = { events: [], frames: [] };
    for (const [at, write] of writes.entries()) {
      const reason = applyOne(writer, write, announced);
      if (reason) return { committed: false, at, reason };
    }
    writer.endCommit();
    return { committed: true, ...announced };
  };

  /** A failure that ended the whole transaction, as a full disk may, is thrown. */
  const applyToSavepoint = ({ writes }: Pending): Fate => {
    savepoint.run();
    let fate: Fate;
    try {
      fate = applyAll(writes);
    } catch (failed) {
      if (!database.isTransaction) throw failed;
      fate = { failed };
    }
    if (!isCommitted(fate)) {
      undo.run();
      writer.undone();
    }
    release.run();
    return fate;
  };

  /** Alone in its transaction, a commit needs no savepoint. */
  const applyAlone = ({ writes }: Pending): Fate => {
    const result = applyAll(writes);
    if (!result.committed) rollback();
    return result;
  };

  /**
   * Without savepoints, which make SQLite copy every page that a commit touches before it does. `undefined` when one of
   * the commits cannot be kept: then nothing was written, and each is to be tried for itself.
   */
  const transactTogether = (group: readonly Pending[]): Committed[] | undefined => {
    const fates: Committed[] = [];
    try {
      begin.run();
      for (const { writes } of group) {
        const fate = applyAll(writes);
        if (!fate.committed) break;
        fates.push(fate);
      }
      if (fates.length === group.length) {
        end.run();
        return fates;
      }
    } catch {
      // Whatever it was, it shows again below.
    }
    rollback();
    return undefined;
  };

  /** The fate of each, in order; throws when none was written. */
  const transact = (group: readonly Pending[]): readonly Fate[] => {
    const together = group.length === 1 ? undefined : transactTogether(group);
    if (together) return together;
    try {
      begin.run();
      const fates = group.map(group.length === 1 ? applyAlone : applyToSavepoint);
      if (database.isTransaction) end.run();
      return fates;
    } catch (error) {
      rollback();
      throw error;
    }
  };

  const run = (group: readonly Pending[]): void => {
    let fates: readonly Fate[];
    try {
      fates = transact(group);
    } catch (error) {
      for (const pending of group) pending.reject(error);
      return;
    }
    const kept = group.filter((_pending, index) => isCommitted(fates[index]));
    if (kept.length > 0) {
      const committed = fates.filter(isCommitted);
      onCommitted(
        kept.flatMap((pending) => pending.writes),
        { events: committed.flatMap((fate) => fate.events), frames: committed.flatMap((fate) => fate.frames) },
      );
    }
    for (const [index, fate] of fates.entries()) {
      if ("failed" in fate) group[index]?.reject(fate.failed);
      else group[index]?.resolve(fate.committed ? { committed: true, events: fate.events } : fate);
    }
  };

  const runGroup = (): void => {
    scheduled = undefined;
    turnsWaited = 0;
    const group = waiting.slice(0, LARGEST_GROUP);
    waiting = waiting.slice(LARGEST_GROUP);
    if (waiting.length > 0 && !isHeld) scheduled = setImmediate(onTurn);
    run(group);
  };

  const onTurn = (): void => {
    const maySoonBeMore = waiting.length > 1 && waiting.length < ENOUGH && turnsWaited < PATIENCE_TURNS;
    if (!maySoonBeMore) {
      runGroup();
      return;
    }
    turnsWaited++;
    scheduled = setImmediate(onTurn);
  };

  return {
    commit(writes) {
      return new Promise<CommitResult>((resolve, reject) => {
        waiting.push({ writes, resolve, reject });
        if (!isHeld) scheduled ??= setImmediate(onTurn);
      });
    },
    hold() {
      isHeld = true;
      clearImmediate(scheduled);
      scheduled = undefined;
    },
    release() {
      isHeld = false;
      if (waiting.length > 0) scheduled ??= setImmediate(onTurn);
    },
    flush() {
      clearImmediate(scheduled);
      while (waiting.length > 0) runGroup();
    },
  };
}

function isCommitted(fate: Fate | undefined): fate is Committed {
  return fate !== undefined && "committed" in fate && fate.committed;
}

function applyOne(writer: Writer, write: Write, announced: Announced) {
  try {
    return writer.apply(write, announced);
  } catch (error) {
    const reason = brokenConstraint(error);
    if (!reason) throw error;
    return reason;
  }
}
