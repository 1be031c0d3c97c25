/** What a notice says: the frame that it is about, as the run's stream has it. Pure. */
import { type CallbackNotice, RUN_PROTOCOL, type RunFrameView } from "@leafmesh/protocol";
import type { CallbackRecord, RunRecord, StoredFrame } from "../storage/contract.ts";

const EVENTS: Readonly<Record<string, CallbackNotice["event"]>> = {
  suspend: "run.suspended",
  resume: "run.resumed",
  "run.end": "run.ended",
};

/** A stored frame as its readers see it. */
export function frameView({ runId, seq, type, data }: StoredFrame): RunFrameView {
  // Frames are written from JSON and read back from JSON.
  return { protocol: RUN_PROTOCOL, seq, run_id: runId, type, segment_id: null, data: data as RunFrameView["data"] };
}

export function toNotice({ id }: CallbackRecord, run: RunRecord, frame: StoredFrame): CallbackNotice {
  const event = EVENTS[frame.type];
  if (!event) throw new Error(`there are no notices about frames of the type ${frame.type}`);
  return { id, event, run_id: run.id, session_id: run.sessionId, frame: frameView(frame) };
}
