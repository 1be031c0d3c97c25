/** One message whose answer is streamed, also when the connection that brought the message is lost. */
import { meshReplySchema } from "@leafmesh/protocol";
import { LeafMeshError } from "./errors.ts";
import { lastEventId, openStream } from "./event-source.ts";
import { type FollowOptions, follow, type Source } from "./follow.ts";
import { type MeshEvent, parseMeshEvent } from "./mesh-events.ts";
import type { Transport } from "./transport.ts";

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
    if (runId === undefined) {
      throw new LeafMeshError(
        "The stream broke before its first event; the conversation's history shows whether the message arrived.",
        { status: 200, code: "bad_answer" },
      );
    }
    const path = `/api/runs/${encodeURIComponent(runId)}`;
    return (await transport.call({ method: "GET", path, signal, safe: true }, meshReplySchema)).session_id;
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
