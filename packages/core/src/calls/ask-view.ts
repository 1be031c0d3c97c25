/** Asks as the API and the command line show them: the call record, and what happened to it in order. */
import { type AskView, askResultSchema, type SessionEventType, type StoredEvent } from "@leafmesh/protocol";
import type { Backend, CallRecord, CallState, OfferRecord } from "../storage/contract.ts";
import { OPEN_CALL_STATES, SETTLED_CALL_STATES } from "../storage/contract.ts";
import { isOpenState } from "./pending-calls.ts";

const ASK_EVENTS = [
  "ask.created",
  "ask.opened",
  "ask.ringing",
  "ask.rung",
  "ask.joined",
  "ask.sent",
  "ask.accepted",
  "ask.progress",
  "ask.away",
  "ask.back",
  "ask.cancel_requested",
  "ask.settled",
  "ask.late_reply",
] as const satisfies readonly SessionEventType[];

/** Events of one session that are looked through for the asks of a page. */
const MAX_EVENTS = 10_000;
const EVENTS_A_PAGE = 1_000;

export interface AskQuery {
  readonly sessionId?: string | undefined;
  /** Only asks that wait, or only those that have ended. */
  readonly open?: boolean | undefined;
  readonly limit: number;
}

/**
 * One ask. `events` may hold those of other asks, too. An attempt to bring the task to the device that failed is shown
 * as `offer.failed`: it has no event of its own.
 */
export function askView(call: CallRecord, offers: readonly OfferRecord[], events: readonly StoredEvent[]): AskView {
  const result = askResultSchema.safeParse(call.result);
  const { action, inputs } = call.arguments;
  const moments = [
    ...events.filter((event) => "ask_id" in event.payload && event.payload.ask_id === call.id),
    ...offers.flatMap(({ at, channel, via, error }) =>
      error === undefined ? [] : [{ ts: at / 1000, type: "offer.failed", payload: { channel, via, error } }],
    ),
  ];
  return {
    ask_id: call.id,
    session_id: call.sessionId,
    run_id: call.runId,
    agent: call.agent,
    ...(call.device === undefined ? {} : { device: call.device }),
    ...(typeof action === "string" ? { action } : {}),
    ...(inputs === undefined ? {} : { inputs: stored(inputs) }),
    state: isOpenState(call.state) ? call.state : "settled",
    created_at: call.createdAt / 1000,
    ...(call.settledAt === undefined ? {} : { settled_at: call.settledAt / 1000 }),
    ...(result.success ? { result: result.data } : {}),
    timeline: moments
      .sort((left, right) => left.ts - right.ts)
      .map(({ ts, type, payload }) => ({ ts, type, payload: stored(payload) })),
  };
}

/** Newest first. */
export async function listAsks(backend: Backend, query: AskQuery): Promise<readonly AskView[]> {
  const calls = await backend.calls({
    sessionId: query.sessionId,
    faces: ["device"],
    states: query.open === undefined ? undefined : query.open ? OPEN_CALL_STATES : ENDED,
    newestFirst: true,
    limit: query.limit,
  });
  const sessions = [...new Set(calls.map((call) => call.sessionId))];
  const events = new Map(await Promise.all(sessions.map(async (id) => [id, await askEvents(backend, id)] as const)));
  return Promise.all(
    calls.map(async (call) => askView(call, await backend.offers(call.id), events.get(call.sessionId) ?? [])),
  );
}

export async function getAsk(backend: Backend, askId: string): Promise<AskView | undefined> {
  const call = await backend.call(askId);
  if (!call) return undefined;
  return askView(call, await backend.offers(askId), await askEvents(backend, call.sessionId));
}

const ENDED: readonly CallState[] = [...SETTLED_CALL_STATES, "used"];

async function askEvents(backend: Backend, sessionId: string): Promise<readonly StoredEvent[]> {
  const found: StoredEvent[] = [];
  for (let after = 0; found.length < MAX_EVENTS; ) {
    const page = await backend.events(sessionId, { after, limit: EVENTS_A_PAGE, types: ASK_EVENTS });
    found.push(...page);
    const last = page.at(-1);
    if (!last || page.length < EVENTS_A_PAGE) break;
    after = last.seq;
  }
  return found;
}

/** What was read back from a JSON column. */
function stored(value: unknown): AskView["timeline"][number]["payload"] {
  return value as AskView["timeline"][number]["payload"];
}
