/** What a notice says: the frame that it is about, as the run's stream has it, or the event. Pure. */
import { type CallbackNotice, RUN_PROTOCOL, type RunFrameView, type RunNotice } from "@leafmesh/protocol";
import type { CallbackRecord, NoticedEvent, RunRecord, StoredFrame } from "../storage/contract.ts";

const EVENTS: Readonly<Record<string, RunNotice["event"]>> = {
  suspend: "run.suspended",
  resume: "run.resumed",
  "run.end": "run.ended",
};

/** A stored frame as its readers see it. */
export function frameView({ runId, seq, type, data }: StoredFrame): RunFrameView {
  // Frames are written from JSON and read back from JSON.
  return { protocol: RUN_PROTOCOL, seq, run_id: runId, type, segment_id: null, data: data as RunFrameView["data"] };
}

export function eventNotice({ id, createdAt }: CallbackRecord, run: RunRecord, event: NoticedEvent): CallbackNotice {
  return { id, event: event.type, run_id: run.id, session_id: run.sessionId, ...event.payload, at: createdAt / 1000 };
}

export function frameNotice({ id }: CallbackRecord, run: RunRecord, frame: StoredFrame): CallbackNotice {
  const event = EVENTS[frame.type];
  if (!event) throw new Error(`there are no notices about frames of the type ${frame.type}`);
  return { id, event, run_id: run.id, session_id: run.sessionId, frame: frameView(frame) };
}
