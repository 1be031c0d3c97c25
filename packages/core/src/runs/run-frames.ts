/** Frames of runs that were submitted by themselves, and the notices that go with them. Pure. */
import type { RunFrameType } from "@leafmesh/protocol";
import type { RunRecord, Write } from "../storage/contract.ts";

/** Frames that a run's `callback_url` is told about. */
const NOTICED: ReadonlySet<RunFrameType> = new Set(["suspend", "resume", "run.end"]);

/** Nothing for runs of a conversation: these have events. */
export function frameWrites(
  run: RunRecord,
  at: number,
  type: RunFrameType,
  data: Readonly<Record<string, unknown>>,
): Write[] {
  if (!run.options) return [];
  const { sealedCallbackUrl } = run.options;
  const writes: Write[] = [{ kind: "frame.append", runId: run.id, at, frame: { type, data } }];
  if (sealedCallbackUrl !== undefined && NOTICED.has(type)) {
    // A commit with such a frame moves the run, so the version that it saw tells its notice from all others.
    const id = `cbk_${run.id}.${run.version}`;
    const callback = { id, runId: run.id, sealedUrl: sealedCallbackUrl, state: "waiting", attempts: 0 } as const;
    writes.push({ kind: "callback.create", callback: { ...callback, dueAt: at, createdAt: at, version: 1 } });
  }
  return writes;
}
