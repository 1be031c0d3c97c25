/**
 * Tool calls whose results come from outside, at most once, before a deadline. This is the only place that moves a call
 * from one state to the next: every move is one commit, with the events and offers that belong to it, and names the
 * version it saw. So between any number of processes one of them settles a call, and the others learn what it became.
 */
import type { AskResult, Clock, NewId, SessionEvent } from "@leafmesh/protocol";
import type {
  Backend,
  CallPatch,
  CallRecord,
  CallState,
  OfferRecord,
  SETTLED_CALL_STATES,
  Write,
} from "../storage/contract.ts";
import { OPEN_CALL_STATES } from "../storage/contract.ts";

/** A call as its tool asks for it. `id` must be new and is what devices and operators see. */
export type NewCall = Pick<
  CallRecord,
  | "id"
  | "sessionId"
  | "runId"
  | "agent"
  | "turn"
  | "position"
  | "providerCallId"
  | "tool"
  | "arguments"
  | "device"
  | "expiresAt"
>;

/** What a move needs to know of a call; held while the call is open. */
export type OpenCall = Pick<CallRecord, "id" | "waitId" | "sessionId" | "version">;

/** What is stored in the same commit as a move. */
export interface Alongside {
  readonly events?: readonly SessionEvent[] | undefined;
  readonly offers?: readonly Omit<OfferRecord, "callId" | "at">[] | undefined;
}

export interface Settlement {
  readonly state: (typeof SETTLED_CALL_STATES)[number];
  readonly reached: CallRecord["reached"];
  readonly result: AskResult;
}

export type Moved =
  | { readonly status: "moved"; readonly call: OpenCall }
  /** Somebody else settled it; `call` says how. Nothing was written. */
  | { readonly status: "settled"; readonly call: CallRecord }
  /** The call, or the session that it needs, does not exist or has ended. Nothing was written. */
  | { readonly status: "gone" };

/** Every method throws `StorageError` when the store itself fails; the move may then have been made or not. */
export interface PendingCalls {
  /** Stores the call, and the wait that holds it, as `created`. */
  open(call: NewCall, alongside?: Alongside): Promise<Moved>;
  /** Stores a call that ended before it could begin: settled from the start, never offered to anybody. */
  record(call: NewCall, settlement: Settlement, alongside?: Alongside): Promise<Moved>;
  /** Moves an open call on, or only stores what belongs to it when `patch` is empty. */
  advance(
    call: OpenCall,
    patch: Pick<CallPatch, "reached" | "room" | "expiresAt"> & { state?: OpenCallState },
    alongside?: Alongside,
  ): Promise<Moved>;
  /** Ends an open call. Exactly one settlement of a call is ever stored. */
  settle(call: OpenCall, settlement: Settlement, alongside?: Alongside): Promise<Moved>;
  /** Stores what belongs to a call, whatever its state. */
  note(call: OpenCall, alongside: Alongside): Promise<void>;
}

/** How often a move is tried again because the call was moved by somebody else in the meantime. */
const MAX_TRIES = 5;

const OPEN: ReadonlySet<CallState> = new Set(OPEN_CALL_STATES);

export type OpenCallState = (typeof OPEN_CALL_STATES)[number];

export function isOpenState(state: CallState): state is OpenCallState {
  return OPEN.has(state);
}

export function isOpenCall(call: Pick<CallRecord, "state">): boolean {
  return isOpenState(call.state);
}

export function createPendingCalls({
  backend,
  clock,
  newId,
}: {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly newId: NewId;
}): PendingCalls {
  const companions = (call: Pick<OpenCall, "id" | "sessionId">, { events = [], offers = [] }: Alongside): Write[] => {
    const at = clock.nowMs();
    return [
      ...offers.map((offer): Write => ({ kind: "offer.append", offer: { ...offer, callId: call.id, at } })),
      ...events.map((event): Write => ({ kind: "event.append", sessionId: call.sessionId, at, event })),
    ];
  };

  const move = async (call: OpenCall, writesFor: (call: OpenCall) => readonly Write[]): Promise<Moved> => {
    let seen = call;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const written = await backend.commit(writesFor(seen));
      if (written.committed) return { status: "moved", call: { ...seen, version: seen.version + 1 } };
      if (written.reason === "missing") return { status: "gone" };
      const current = await backend.call(seen.id);
      if (!current) return { status: "gone" };
      if (!isOpenCall(current)) return { status: "settled", call: current };
      seen = { id: current.id, waitId: current.waitId, sessionId: current.sessionId, version: current.version };
    }
    throw new Error(`call ${call.id} was moved by others ${MAX_TRIES} times in a row`);
  };

  const create = async (
    call: NewCall,
    states: {
      readonly wait: "open" | "complete";
      readonly call: Partial<CallRecord> & Pick<CallRecord, "state" | "reached">;
    },
    alongside: Alongside,
  ): Promise<Moved> => {
    const waitId = newId("wait");
    const { sessionId, runId, agent, turn } = call;
    const shared = { runId, sessionId, agent, turn, face: "device" } as const;
    const wait = { ...shared, id: waitId, state: states.wait, deadlineAt: call.expiresAt, callIds: [call.id] };
    const record = { ...call, ...states.call, waitId, face: "device", createdAt: clock.nowMs(), version: 1 } as const;
    const written = await backend.commit([
      { kind: "wait.create", wait },
      { kind: "call.create", call: record },
      ...companions(call, alongside),
    ]);
    if (!written.committed && written.reason === "exists") throw new Error(`call ${call.id} exists already`);
    return written.committed
      ? { status: "moved", call: { id: call.id, waitId, sessionId, version: 1 } }
      : { status: "gone" };
  };

  return {
    open: (call, alongside = {}) =>
      create(call, { wait: "open", call: { state: "created", reached: "no" } }, alongside),

    record: (call, { state, reached, result }, alongside = {}) => {
      const settled = { state, reached, result, outcome: result.outcome, settledAt: clock.nowMs() };
      return create(call, { wait: "complete", call: settled }, alongside);
    },

    advance: (call, patch, alongside = {}) =>
      move(call, ({ version }) => [
        { kind: "call.update", callId: call.id, version, patch },
        ...companions(call, alongside),
      ]),

    settle: (call, { state, reached, result }, alongside = {}) =>
      move(call, ({ version, waitId }) => [
        {
          kind: "call.update",
          callId: call.id,
          version,
          patch: { state, reached, result, outcome: result.outcome, settledAt: clock.nowMs() },
        },
        { kind: "wait.update", waitId, from: "open", to: "complete" },
        ...companions(call, alongside),
      ]),

    async note(call, alongside) {
      await backend.commit(companions(call, alongside));
    },
  };
}
