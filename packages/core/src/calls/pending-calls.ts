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
  WaitRecord,
  Write,
} from "../storage/contract.ts";
import { OPEN_CALL_STATES } from "../storage/contract.ts";
import { closeWaitWrite, createWrites, type FirstState, settledPatch, settleWrite } from "./call-writes.ts";

/** A call as its tool asks for it. `id` must be new and is what devices and operators see; `face` is `device` unless given. */
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
> &
  Partial<Pick<CallRecord, "face" | "tokenHash" | "sealedToken" | "argumentsDigest">>;

/** What a move needs to know of a call; held while the call is open. */
export type OpenCall = Pick<CallRecord, "id" | "waitId" | "sessionId" | "version">;

/** What is stored in the same commit as a move. */
export interface Alongside {
  readonly events?: readonly SessionEvent[] | undefined;
  readonly offers?: readonly Omit<OfferRecord, "callId" | "at">[] | undefined;
  /** Written last; one that is refused stops the move. */
  readonly writes?: readonly Write[] | undefined;
}

/** How a call ended; `result` is what its tool makes of it. */
export interface Settlement<Result = AskResult> {
  readonly state: (typeof SETTLED_CALL_STATES)[number];
  readonly reached: CallRecord["reached"];
  readonly result: Result;
  /** Name of the API key that brought the result. */
  readonly answeredBy?: string | undefined;
  /** To recognise a repeat of the result. */
  readonly resultDigest?: string | undefined;
}

export type Moved =
  | { readonly status: "moved"; readonly call: OpenCall }
  /** Somebody else settled it; `call` says how. Nothing was written. */
  | { readonly status: "settled"; readonly call: CallRecord }
  /** The call, or the session that it needs, does not exist or has ended. Nothing was written. */
  | { readonly status: "gone" };

/** What closes a whole wait: every call of it with its settlement. */
export interface GroupSettlement {
  readonly waitId: string;
  readonly to: "complete" | "expired" | "cancelled";
  /** By call id; names exactly the calls of the wait. */
  readonly settlements: ReadonlyMap<string, Settlement<unknown>>;
  /** Of the answer, to recognise its repeat. */
  readonly answerDigest?: string | undefined;
}

export type GroupMoved =
  | { readonly status: "moved" }
  /** It was closed before; `wait` says how. Nothing was written. */
  | { readonly status: "closed"; readonly wait: WaitRecord }
  /** A write of `alongside` was refused: what it builds on has changed. Nothing was written. */
  | { readonly status: "conflict" }
  | { readonly status: "gone" };

/** Every method throws `StorageError` when the store itself fails; the move may then have been made or not. */
export interface PendingCalls {
  /** Stores the call, and the wait that holds it: as `created` unless `first` says otherwise. */
  open(call: NewCall, alongside?: Alongside, first?: FirstOpen): Promise<Moved>;
  /** Stores calls of one turn and the one wait that holds them, all as `offered`. */
  openGroup(
    calls: readonly NewCall[],
    wait: { readonly startedAt: number; readonly deadlineAt: number },
    alongside?: Alongside,
  ): Promise<{ readonly status: "moved"; readonly waitId: string } | { readonly status: "gone" | "conflict" }>;
  /**
   * Stores a call that ended before it could begin, never offered to anybody. For the commit that brings its result into
   * the history: the call is stored as used.
   */
  usedWrites(call: NewCall, settlement: Settlement<unknown>, alongside?: Alongside): readonly Write[];
  /** Moves an open call on, or only stores what belongs to it when `patch` is empty. */
  advance(
    call: OpenCall,
    patch: Pick<CallPatch, "reached" | "room" | "expiresAt"> & { state?: OpenCallState },
    alongside?: Alongside,
  ): Promise<Moved>;
  /** Ends an open call of a wait of one. Exactly one settlement of a call is ever stored. */
  settle(call: OpenCall, settlement: Settlement<unknown>, alongside?: Alongside): Promise<Moved>;
  /** Ends all calls of an open wait together, or none. */
  settleGroup(group: GroupSettlement, alongside?: Alongside): Promise<GroupMoved>;
  /** Keeps a result that came after the call had ended without one; the first such result stays. */
  keepLate(call: CallRecord, late: { readonly digest: string; readonly result: unknown }): Promise<void>;
  /** Stores what belongs to a call, whatever its state. */
  note(call: OpenCall, alongside: Alongside): Promise<void>;
}

/** The state of a call that is stored for the first time and still open. */
export type FirstOpen = { readonly state: OpenCallState; readonly reached: CallRecord["reached"] };

/** How often a move is tried again because the call was moved by somebody else in the meantime. */
const MAX_TRIES = 5;

const CREATED: FirstOpen = { state: "created", reached: "no" };
const OFFERED: FirstOpen = { state: "offered", reached: "maybe" };
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
  const companions = (call: Pick<OpenCall, "id" | "sessionId">, alongside: Alongside): Write[] => {
    const { events = [], offers = [], writes = [] } = alongside;
    const at = clock.nowMs();
    return [
      ...offers.map((offer): Write => ({ kind: "offer.append", offer: { ...offer, callId: call.id, at } })),
      ...events.map((event): Write => ({ kind: "event.append", sessionId: call.sessionId, at, event })),
      ...writes,
    ];
  };

  const move = async (
    call: OpenCall,
    movesOf: (call: OpenCall) => readonly Write[],
    alongside: Alongside,
  ): Promise<Moved> => {
    let seen = call;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const moves = movesOf(seen);
      const written = await backend.commit([...moves, ...companions(seen, alongside)]);
      if (written.committed) return { status: "moved", call: { ...seen, version: seen.version + 1 } };
      if (written.reason === "missing" || written.at >= moves.length) return { status: "gone" };
      const current = await backend.call(seen.id);
      if (!current) return { status: "gone" };
      if (!isOpenCall(current)) return { status: "settled", call: current };
      seen = { id: current.id, waitId: current.waitId, sessionId: current.sessionId, version: current.version };
    }
    throw new Error(`call ${call.id} was moved by others ${MAX_TRIES} times in a row`);
  };

  const create = async (call: NewCall, first: FirstState, alongside: Alongside): Promise<Moved> => {
    const waitId = newId("wait");
    const wait = { id: waitId, state: "open", deadlineAt: call.expiresAt } as const;
    const written = await backend.commit([
      ...createWrites(wait, [call], first, clock.nowMs()),
      ...companions(call, alongside),
    ]);
    if (!written.committed && written.reason === "exists") throw new Error(`call ${call.id} exists already`);
    return written.committed
      ? { status: "moved", call: { id: call.id, waitId, sessionId: call.sessionId, version: 1 } }
      : { status: "gone" };
  };

  const groupWrites = async (group: GroupSettlement): Promise<readonly Write[]> => {
    const calls = await backend.calls({ waitId: group.waitId });
    const at = clock.nowMs();
    const settled = calls.map((call) => {
      const settlement = group.settlements.get(call.id);
      if (!settlement) throw new Error(`no settlement for call ${call.id} of wait ${group.waitId}`);
      return settleWrite(call, settledPatch(settlement, at));
    });
    if (settled.length !== group.settlements.size) throw new Error(`wait ${group.waitId} holds other calls`);
    return [closeWaitWrite(group.waitId, group.to, group.answerDigest), ...settled];
  };

  return {
    open: (call, alongside = {}, first = CREATED) => create(call, first, alongside),

    async openGroup(calls, { startedAt, deadlineAt }, alongside = {}) {
      const [one] = calls;
      if (!one) throw new Error("a wait holds at least one call");
      const waitId = newId("wait");
      const moves = createWrites({ id: waitId, state: "open", deadlineAt }, calls, OFFERED, startedAt);
      const written = await backend.commit([...moves, ...companions(one, alongside)]);
      if (written.committed) return { status: "moved", waitId };
      if (written.at >= moves.length) return { status: "conflict" };
      if (written.reason === "exists") throw new Error("a call of the group exists already");
      return { status: "gone" };
    },

    usedWrites(call, settlement, alongside = {}) {
      const at = clock.nowMs();
      const wait = { id: newId("wait"), state: "continued", deadlineAt: call.expiresAt } as const;
      const used = { ...settledPatch(settlement, at), state: "used", usedAt: at } as const;
      return [...createWrites(wait, [call], used, at), ...companions(call, alongside)];
    },

    advance: (call, patch, alongside = {}) =>
      move(call, ({ version }) => [{ kind: "call.update", callId: call.id, version, patch }], alongside),

    settle: (call, settlement, alongside = {}) =>
      move(
        call,
        (seen) => [settleWrite(seen, settledPatch(settlement, clock.nowMs())), closeWaitWrite(seen.waitId, "complete")],
        alongside,
      ),

    async settleGroup(group, alongside = {}) {
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const wait = await backend.wait(group.waitId);
        const [callId] = wait?.callIds ?? [];
        if (!wait || callId === undefined) return { status: "gone" };
        if (wait.state !== "open") return { status: "closed", wait };
        const moves = await groupWrites(group);
        const written = await backend.commit([
          ...moves,
          ...companions({ id: callId, sessionId: wait.sessionId }, alongside),
        ]);
        if (written.committed) return { status: "moved" };
        if (written.at >= moves.length) return { status: "conflict" };
      }
      throw new Error(`wait ${group.waitId} was moved by others ${MAX_TRIES} times in a row`);
    },

    async keepLate(call, { digest, result }) {
      let seen: CallRecord | undefined = call;
      for (let tries = 0; tries < MAX_TRIES && seen && !seen.late && !isOpenCall(seen); tries++) {
        const patch = { late: { at: clock.nowMs(), digest, result } };
        const written = await backend.commit([settleWrite(seen, patch)]);
        if (written.committed) return;
        seen = await backend.call(call.id);
      }
    },

    async note(call, alongside) {
      await backend.commit(companions(call, alongside));
    },
  };
}
