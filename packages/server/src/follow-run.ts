import type { ServerResponse } from "node:http";
import { type Backend, frameView, type RunRecord, type StoredFrame } from "@leafmesh/core";
import { type Clock, FINAL_RUN_STATUSES } from "@leafmesh/protocol";
import { openEventStream } from "./event-stream.ts";

/** Small, because a frame may be large and a reader slow. */
const PAGE = 25;

/**
 * The frames of a run after `after`, then live, without a gap or a repeat. Stays open while the run waits for its
 * client, and ends after `run.end`.
 */
export async function streamRun(
  { backend, clock }: { readonly backend: Backend; readonly clock: Clock },
  { id }: RunRecord,
  after: number,
  outgoing: ServerResponse,
): Promise<void> {
  const stream = openEventStream(outgoing, clock, {});
  let last = after;
  /** Of the frames that were heard of. */
  let newest = 0;
  let caughtUp = false;

  const deliver = (frame: StoredFrame): void => {
    if (frame.seq <= last || !stream.open) return;
    last = frame.seq;
    stream.frame(frame.seq, frameView(frame));
    if (frame.type === "run.end") stream.end();
  };
  const readOn = async (): Promise<void> => {
    for (;;) {
      const heardOf = newest;
      const page = await backend.frames(id, { after: last, limit: PAGE });
      for (const frame of page) {
        deliver(frame);
        await stream.room();
      }
      if (!stream.open) return;
      // What was heard of before the page was read stands in it, unless it is gone.
      if (page.length < PAGE && newest <= Math.max(last, heardOf)) return;
    }
  };

  const stop = backend.subscribeRun(id, {
    onFrames(frames) {
      newest = Math.max(newest, frames.at(-1)?.seq ?? 0);
      if (caughtUp) frames.forEach(deliver);
    },
  });
  try {
    await readOn();
    caughtUp = true;
    if (stream.open && (await hasEnded(backend, id))) {
      // Its last frame may have been stored after the backlog was read, or lie before the reader's cursor.
      caughtUp = false;
      await readOn();
      stream.end();
    }
    await stream.closed;
  } finally {
    stop();
    stream.end();
  }
}

async function hasEnded(backend: Backend, runId: string): Promise<boolean> {
  const run = await backend.run(runId);
  return !run || FINAL_RUN_STATUSES.has(run.status);
}
