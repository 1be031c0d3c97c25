/** One message whose answer is streamed, also when the connection that brought the message is lost. */
import { deadline, type MeshReply, meshReplySchema } from "@leafmesh/protocol";
import { LeafMeshError } from "./errors.ts";
import { lastEventId, openStream } from "./event-source.ts";
import { type FollowOptions, follow, type Source } from "./follow.ts";
import { type MeshEvent, parseMeshEvent } from "./mesh-events.ts";
import type { CallOptions, Transport } from "./transport.ts";

/** To be iterated once: iterating sends the message. */
export interface MessageStream extends AsyncIterable<MeshEvent> {
  /** The conversation, once the mesh has taken the message. */
  readonly sessionId: string | undefined;
  readonly runId: string | undefined;
}

/**
 * The message is sent once. If the stream breaks before the run's end, what is missing is read from the conversation's own
 * stream; if it breaks before the mesh answered at all, nobody knows whether the message arrived, and the iteration rejects.
 */
export function streamMessage(
  transport: Transport,
  body: object,
  options: Omit<FollowOptions, "after">,
): MessageStream {
  let sessionId: string | undefined;
  let runId: string | undefined;

  const find = async (signal: AbortSignal): Promise<string> => {
    if (runId === undefined) throw unknownRun();
    return (await readRun(transport, runId, { signal })).session_id;
  };

  return {
    get sessionId() {
      return sessionId;
    },
    get runId() {
      return runId;
    },
    async *[Symbol.asyncIterator]() {
      let brought: Response | undefined = await openStream(transport, {
        method: "POST",
        path: "/api/mesh/request",
        json: { ...body, stream: true },
        signal: options.signal,
      });
      // A page of another origin may be kept from these headers; the run's first event says the same.
      sessionId = brought.headers.get("x-leafmesh-session-id") ?? undefined;
      runId = brought.headers.get("x-leafmesh-run-id") ?? undefined;
      let beforeThisMessage = false;

      const source: Source<MeshEvent> = {
        clock: transport.clock,
        random: transport.random,
        async connect(after, signal) {
          if (brought) {
            const first = brought;
            brought = undefined;
            return first;
          }
          beforeThisMessage = after === undefined;
          sessionId ??= await find(signal);
          const path = `/api/sessions/${encodeURIComponent(sessionId)}/stream`;
          return openStream(transport, { method: "GET", path, signal, headers: lastEventId(after) });
        },
        parse: parseMeshEvent,
        isLast: (event) =>
          event.type === "stream_end" || (event.type === "run.finished" && event.payload.run_id === runId),
      };
      for await (const event of follow(source, options)) {
        if (event.type === "run.queued") runId ??= event.payload.run_id;
        if (event.type === "message.received" && event.payload.run_id === runId) beforeThisMessage = false;
        if (beforeThisMessage || event.type === "session_state") continue;
        yield event;
      }
    },
  };
}

/** An hour, which is what a run may take at most by default, and a little for the way. */
const REPLY_TIMEOUT_MS = 3_660_000;

/**
 * Sends a message and waits for the run's end. It waits on a stream: an answer that is silent for minutes would not come
 * through many proxies, nor through the `fetch` of Node.
 */
export async function replyTo(
  transport: Transport,
  body: object,
  { signal, timeoutMs = REPLY_TIMEOUT_MS }: CallOptions,
): Promise<MeshReply> {
  const time = deadline(transport.clock, timeoutMs, signal);
  try {
    const events = streamMessage(transport, body, { signal: time.signal });
    for await (const _ of events) {
      // Only the end counts.
    }
    time.signal.throwIfAborted();
    if (events.runId === undefined) throw unknownRun();
    return await readRun(transport, events.runId, { signal: time.signal });
  } catch (cause) {
    if (!time.signal.aborted || signal?.aborted) throw cause;
    throw new LeafMeshError(`The run did not end within ${timeoutMs / 1000} s.`, { status: 0, code: "timeout", cause });
  } finally {
    time.dispose();
  }
}

/** How a run of a conversation stands. */
export function readRun(transport: Transport, runId: string, options: CallOptions = {}): Promise<MeshReply> {
  const path = `/api/runs/${encodeURIComponent(runId)}`;
  return transport.call({ ...options, method: "GET", path, safe: true }, meshReplySchema);
}

function unknownRun(): LeafMeshError {
  return new LeafMeshError(
    "The stream broke before its first event; the conversation's history shows whether the message arrived.",
    { status: 200, code: "bad_answer" },
  );
}
