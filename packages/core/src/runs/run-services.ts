import type { Clock, Logger, NewId } from "@leafmesh/protocol";
import type { PendingCalls } from "../calls/pending-calls.ts";
import type { WatchedWait } from "../client-tools/deadlines.ts";
import type { Backend, CommitResult, RunRecord, Write } from "../storage/contract.ts";
import type { ToolProvider } from "../tools/contract.ts";
import type { MeshLeases } from "./mesh-leases.ts";
import type { UploadReader } from "./shown-images.ts";

/** What driving a run stands on. */
export interface RunServices {
  readonly backend: Backend;
  readonly calls: PendingCalls;
  readonly leases: MeshLeases;
  readonly toolProviders: readonly ToolProvider[];
  readonly uploads: UploadReader;
  readonly clock: Clock;
  readonly newId: NewId;
  /** 0 up to 1, for the spread of retries. */
  readonly random: () => number;
  readonly logger: Logger;
  /** A run whose calls only wait is parked after this. */
  readonly parkAfterMs: number;
  /** A run has stored that it waits, and its worker is about to let it go. */
  onSuspended(wait: WatchedWait): void;
  /** A run that was in hand has ended, or waits for somebody outside. */
  onReleased(run: RunRecord): void;
}

/** Somebody else changed what a commit builds on; what is known has to be read again. */
export class CommitConflict extends Error {
  override readonly name = "CommitConflict";

  constructor(refused: Extract<CommitResult, { committed: false }>, writes: readonly Write[]) {
    super(`${writes[refused.at]?.kind ?? "a write"} was refused: ${refused.reason}`);
  }
}

/** Commits or throws {@link CommitConflict}. */
export async function commit(backend: Backend, writes: readonly Write[]): Promise<void> {
  const result = await backend.commit(writes);
  if (!result.committed) throw new CommitConflict(result, writes);
}
