/** Serves a conversation: answers the calls of the tools that this program declared on it. */
import { LeafMeshError } from "../errors.ts";
import type { MeshEvent, StoredMeshEvent } from "../mesh-events.ts";
import type { MeshEvents, Session } from "../session.ts";
import { toDeviceToolAnswer } from "./answer.ts";
import { type PerformServices, perform } from "./perform.ts";
import { CallStopped, type ToolCall } from "./tool.ts";
import type { Work } from "./work.ts";

/** How far a call may be past its expiry and still be run: clocks differ, and so does the way that a frame takes. */
export const STALE_AFTER_MS = 60_000;
/** Of a call that looks expired and is run all the same. */
const LEAST_BUDGET_MS = 5_000;
/** So that several tries fit into the 30 s of a call. */
const POST_TIMEOUT_MS = 8_000;

type CallEvent = Extract<StoredMeshEvent, { type: "device_tool_call" }>;

export interface SessionService {
  readonly services: PerformServices;
  readonly session: Session;
  readonly work: Work;
  /** Aborted when the executor is closed. */
  readonly closed: AbortSignal;
}

/**
 * Calls of the backlog are held until the mesh says that it is all there (`session_state`): those that are settled further
 * on are never begun, and the mesh's clock is known by then. Calls that are under way outlive the stream.
 */
export class SessionServer {
  readonly #service: SessionService;
  readonly #held = new Map<string, CallEvent>();
  readonly #running = new Map<string, AbortController>();
  #live = false;
  /** What to add to this program's clock to get the mesh's, in milliseconds. */
  #skewMs = 0;

  constructor(service: SessionService) {
    this.#service = service;
  }

  /** The stream was lost; what comes next is backlog again. */
  lost(): void {
    this.#live = false;
  }

  take(event: MeshEvent): void {
    if (event.type === "device_tool_call") {
      if (this.#live) this.#begin(event);
      else this.#held.set(event.payload.call_id, event);
    } else if (event.type === "device_tool_call.settled") {
      this.#held.delete(event.payload.call_id);
      this.#running.get(event.payload.call_id)?.abort(new CallStopped("settled"));
    } else if (event.type === "session_state") {
      this.#skewMs = event.payload.server_now * 1000 - this.#service.services.clock.nowMs();
      this.#live = true;
      const held = [...this.#held.values()];
      this.#held.clear();
      for (const each of held) this.#begin(each);
    }
  }

  #begin({ payload }: CallEvent): void {
    const { services, session, work, closed } = this.#service;
    const { call_id: callId, call_token: token, tool_id: tool, args } = payload;
    if (this.#running.has(callId)) return;
    const call: ToolCall = {
      key: `${session.id}/${callId}`,
      tool,
      args,
      origin: { face: "session", sessionId: session.id, callId },
    };
    if (token === undefined) {
      services.report({ type: "no_token", call });
      return;
    }
    const leftMs = payload.expires_at * 1000 - (services.clock.nowMs() + this.#skewMs);
    if (leftMs < -STALE_AFTER_MS) {
      services.report({ type: "stale", call, lateByMs: Math.round(-leftMs) });
      return;
    }
    const stop = new AbortController();
    this.#running.set(callId, stop);
    const performed = perform(services, {
      key: call.key,
      calls: [call],
      budgetMs: Math.max(leftMs, LEAST_BUDGET_MS),
      signal: AbortSignal.any([stop.signal, closed]),
      async deliver([answer]) {
        if (answer) await post(session, callId, toDeviceToolAnswer(answer, token));
      },
    });
    work.add(performed.finally(() => this.#running.delete(callId)));
  }
}

/** The mesh says of a repeat whether the result that stands is this very one: then an earlier try had arrived. */
async function post(
  session: Session,
  callId: string,
  answer: Parameters<Session["answerDeviceTool"]>[1],
): Promise<void> {
  try {
    await session.answerDeviceTool(callId, answer, { timeoutMs: POST_TIMEOUT_MS });
  } catch (error) {
    if (error instanceof LeafMeshError && error.status === 409 && saysSame(error.body)) return;
    throw error;
  }
}

function saysSame(body: unknown): boolean {
  return typeof body === "object" && body !== null && "same" in body && body.same === true;
}

/** Passes the events on until the stream ends. `caughtUp` is called when the mesh has shown all there was. */
export async function serveEvents(
  server: SessionServer,
  events: MeshEvents,
  { caughtUp, onEvent }: { caughtUp: () => void; onEvent: (event: MeshEvent) => void },
): Promise<void> {
  for await (const event of events) {
    server.take(event);
    if (event.type === "session_state") caughtUp();
    onEvent(event);
  }
}
