/** One run that was submitted by itself. */
import {
  type ApprovalInput,
  type RunFrameView,
  type RunState,
  randomId,
  runAcceptedSchema,
  runFrameSchema,
  runStateSchema,
  type toolResultSchema,
} from "@leafmesh/protocol";
import type { EventSourceMessage } from "eventsource-parser";
import * as z from "zod";
import { lastEventId, openStream } from "./event-source.ts";
import { type FollowOptions, follow } from "./follow.ts";
import { OpenOffers } from "./open-offers.ts";
import { parseJson } from "./parse-json.ts";
import type { AcceptedRun } from "./session.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** What happened in one call that the client executed. `is_error`: it ran and failed. */
export type ToolResult = z.input<typeof toolResultSchema>;

export interface RunFrames extends AsyncIterable<RunFrameView> {
  /** Where to begin next time (`after`) to lose nothing. Never past a suspension that is still open. */
  readonly cursor: number;
}

/** One page of a run's frames. */
export interface RunEvents {
  readonly events: readonly RunFrameView[];
  readonly has_more: boolean;
}

export interface RunEventsQuery {
  /** Only frames of this type, such as `suspend`; or of several, with commas. */
  readonly type?: string | undefined;
  /** Only frames after this number. */
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
}

export interface SubmitOptions extends CallOptions {
  /** The same run for the same key, however often it is submitted. Made up when left out, so that a try can be repeated. */
  readonly idempotencyKey?: string | undefined;
}

/** A handle: making one asks the mesh nothing. */
export interface Run {
  readonly id: string;
  state(options?: CallOptions): Promise<RunState>;
  /**
   * The run's frames, each once, over any number of connections; from the first one unless `after` is given. Ends after
   * `run.end` or when the signal is aborted; rejects when the mesh refuses for good.
   */
  frames(options?: FollowOptions): RunFrames;
  /** Frames that are stored, without a stream. */
  events(query?: RunEventsQuery, options?: CallOptions): Promise<RunEvents>;
  /** Waits for `run.end` and gives back how the run stands then. */
  finished(options?: { readonly signal?: AbortSignal | undefined }): Promise<RunState>;
  /**
   * Answers the calls that the run waits for, all of them at once. A failure that may pass is tried again with the very same
   * results, which the mesh takes once.
   */
  resume(results: readonly ToolResult[], options?: CallOptions): Promise<AcceptedRun>;
  /** Decides about a platform tool that waits for approval. Give `tool_call_id`, so that a repeat decides about nothing else. */
  decide(approval: ApprovalInput, options?: CallOptions): Promise<AcceptedRun>;
  /** Ends the run. One that has ended stays as it is. */
  cancel(options?: CallOptions): Promise<AcceptedRun>;
  /** A new run of the same input, in a conversation of its own; it never waits for a client. */
  replay(options?: SubmitOptions): Promise<Run>;
}

const runEventsSchema = z.object({ events: z.array(runFrameSchema), has_more: z.boolean() });

export function createRun(id: string, transport: Transport): Run {
  const path = `/runs/${encodeURIComponent(id)}`;
  const resume = (value: unknown, contract: string, safe: boolean, options: CallOptions | undefined) =>
    transport.call(
      { ...options, method: "POST", path: `${path}/resume`, json: { contract, value }, safe },
      runAcceptedSchema,
    );
  const state = (options?: CallOptions): Promise<RunState> =>
    transport.call({ ...options, method: "GET", path: `${path}/state`, safe: true }, runStateSchema);
  const frames = (options: FollowOptions = {}): RunFrames => followFrames(`${path}/stream`, transport, options);

  return {
    id,
    state,
    frames,
    events: ({ type, after, limit } = {}, options) =>
      transport.call(
        { ...options, method: "GET", path: `${path}/events`, query: { type, after_seq: after, limit }, safe: true },
        runEventsSchema,
      ),
    async finished({ signal } = {}) {
      for await (const _ of frames({ signal })) {
        // Only the end counts.
      }
      signal?.throwIfAborted();
      return state({ signal });
    },
    resume: (results, options) => resume({ tool_results: results }, "result", true, options),
    decide: (approval, options) => resume(approval, "approval", approval.tool_call_id !== undefined, options),
    cancel: (options) =>
      transport.call({ ...options, method: "POST", path: `${path}/cancel`, json: {}, safe: true }, runAcceptedSchema),
    async replay({ idempotencyKey = randomId("replay"), ...options } = {}) {
      const headers = { "idempotency-key": idempotencyKey };
      const request = { ...options, method: "POST", path: `${path}/replay`, json: {}, headers, safe: true } as const;
      return createRun((await transport.call(request, runAcceptedSchema)).run_id, transport);
    },
  };
}

/** Of the suspension that is open; a run has one at a time. */
const SUSPENSION = "suspension";

function followFrames(path: string, transport: Transport, options: FollowOptions): RunFrames {
  const offers = new OpenOffers(options.after ?? 0);
  return {
    get cursor() {
      return offers.cursor;
    },
    async *[Symbol.asyncIterator]() {
      const frames = follow<RunFrameView>(
        {
          clock: transport.clock,
          random: transport.random,
          connect: (after, signal) =>
            openStream(transport, { method: "GET", path, signal, headers: lastEventId(after) }),
          parse: parseFrame,
          isLast: (frame) => frame.type === "run.end",
          resumeFrom: (last) => offers.before(last),
        },
        { ...options, after: options.after ?? 0 },
      );
      for await (const frame of frames) {
        if (frame.type === "suspend") offers.open(SUSPENSION, frame.seq);
        if (frame.type === "resume" || frame.type === "run.end") offers.close(SUSPENSION);
        yield frame;
        offers.handled(frame.seq);
      }
    },
  };
}

function parseFrame(message: EventSourceMessage): RunFrameView | undefined {
  return runFrameSchema.safeParse(parseJson(message.data)).data;
}
