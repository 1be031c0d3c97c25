/**
 * One stream out of many connections: comes back after every loss, asks for what it has not seen, and passes on each frame
 * once and in order, whatever the connections did.
 */
import { type Clock, createBackoff } from "@leafmesh/protocol";
import type { EventSourceMessage } from "eventsource-parser";
import { LeafMeshError, mayWorkLater } from "./errors.ts";
import { readMessages } from "./read-messages.ts";
import { sleep, waitAfter } from "./wait.ts";

/** How a stream stands. `lost` is followed by another try after `retryInMs`. */
export type ConnectionState =
  | { readonly state: "connecting" }
  | { readonly state: "open" }
  | { readonly state: "lost"; readonly retryInMs: number; readonly error?: unknown };

export interface FollowOptions {
  /** Number of the last frame that the caller has; the first one that comes is the next. */
  readonly after?: number | undefined;
  /** Ends the iteration, quietly. */
  readonly signal?: AbortSignal | undefined;
  readonly onConnection?: ((state: ConnectionState) => void) | undefined;
}

export interface Numbered {
  /** Gap-free within the stream; frames that are not stored have none. */
  readonly seq?: number | undefined;
}

export interface Source<Frame extends Numbered> {
  readonly clock: Clock;
  readonly random: () => number;
  /** One connection that begins after frame number `after`; `undefined` where the first frame decides. */
  connect(after: number | undefined, signal: AbortSignal): Promise<Response>;
  /** `undefined` for what is no frame. */
  parse(message: EventSourceMessage): Frame | undefined;
  isLast(frame: Frame): boolean;
  /** Where a new connection begins, given the last frame that was passed on; at or before it. */
  resumeFrom?(last: number): number;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Ends after the last frame or when the signal is aborted; rejects when the mesh refuses for good. */
export async function* follow<Frame extends Numbered>(
  source: Source<Frame>,
  { after, signal: stop, onConnection }: FollowOptions,
): AsyncGenerator<Frame> {
  const ended = new AbortController();
  const signal = stop ? AbortSignal.any([stop, ended.signal]) : ended.signal;
  const backoff = createBackoff({ firstMs: FIRST_WAIT_MS, longestMs: LONGEST_WAIT_MS, random: source.random });
  let last = after;
  let missedAfter: number | undefined;
  try {
    while (!signal.aborted) {
      onConnection?.({ state: "connecting" });
      let error: unknown;
      try {
        const from = last === undefined ? undefined : (source.resumeFrom?.(last) ?? last);
        const response = await source.connect(from, signal);
        onConnection?.({ state: "open" });
        for await (const message of bodyOf(response, source.clock)) {
          const frame = source.parse(message);
          if (!frame) continue;
          if (frame.seq !== undefined && last !== undefined) {
            if (frame.seq <= last) continue;
            // A frame is missing: ask for it once. A mesh that has it no more goes on with what it has.
            if (frame.seq > last + 1 && missedAfter !== last) {
              missedAfter = last;
              throw new Error(`frame ${last + 1} did not come`);
            }
          }
          last = frame.seq ?? last;
          backoff.reset();
          yield frame;
          if (source.isLast(frame)) return;
        }
      } catch (cause) {
        if (signal.aborted) return;
        if (cause instanceof LeafMeshError && !mayWorkLater(cause)) throw cause;
        error = cause;
      }
      const waitMs = error instanceof LeafMeshError ? waitAfter(error, backoff.nextMs()) : backoff.nextMs();
      onConnection?.({ state: "lost", retryInMs: waitMs, error });
      await sleep(source.clock, waitMs, signal).catch(() => {});
    }
  } finally {
    ended.abort();
  }
}

async function* bodyOf(response: Response, clock: Clock): AsyncGenerator<EventSourceMessage> {
  if (response.body) yield* readMessages(response.body, clock);
}
