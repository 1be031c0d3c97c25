/** What the test and the process that it stops agree on. */

/** A kind of commit. `used`: results enter the history, and the records that they came from are closed. */
export type CommitKind = "stored" | "settled" | "used";

export interface StopPoint {
  readonly kind: CommitKind;
  /** Counted from 1 among commits of the kind. */
  readonly nth?: number;
  readonly when: "before" | "after";
  /** `freeze`: nothing of the process goes on. `hold`: only who waits for this commit does not. */
  readonly how: "freeze" | "hold";
}

/** Variables that carry a {@link StopPoint} as JSON, and the version of a migration of SQLite. */
export const STOP_AT = "KILL_MATRIX_STOP_AT";
export const STOP_IN_MIGRATION = "KILL_MATRIX_STOP_IN_MIGRATION";
