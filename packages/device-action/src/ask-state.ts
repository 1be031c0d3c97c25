/**
 * The vocabulary of the ask machine: where an ask stands, what can happen to it, what it wants done, how it ended.
 * Plain data throughout, so that any history of an ask can be written down, replayed and checked.
 */

import type { RingErrorKind } from "@leafmesh/notifiers/contract";
import type { AskResult, Capability, Reason, ReplyEnvelope } from "@leafmesh/protocol";
import type { Delivered, RoomErrorKind } from "@leafmesh/rooms/contract";

/**
 * Where an ask stands. `away` is about the device's link. From `sending` on, the task may have left; before it, the
 * task has certainly not left, and every ending says that nothing happened.
 */
export type AskState =
  | { readonly phase: "validating" }
  /** The ask is being stored. */
  | { readonly phase: "creating" }
  /** Stored; an earlier ask of this conversation to the same device is still open. */
  | { readonly phase: "queued" }
  | { readonly phase: "opening" }
  /** The room is open; that the device is about to be rung is being stored. */
  | { readonly phase: "reaching" }
  /** `rung` once the notifier took the ring. The device may join before that. */
  | { readonly phase: "ringing"; readonly rung: boolean }
  /** The device joined and said what it can do; the action is held against that. */
  | { readonly phase: "checking"; readonly checked: boolean; readonly away: boolean }
  /** That the task is about to leave is being stored. */
  | { readonly phase: "offering"; readonly stored: boolean; readonly away: boolean }
  /** The task was given to the room, which has not yet said what became of it. */
  | ({
      readonly phase: "sending";
      /** The device or the room went away meanwhile; the verdict on the send decides what that means. */
      readonly gone?: "connection_lost" | "room_closed" | undefined;
    } & TaskOut)
  | ({ readonly phase: "waiting" } & TaskOut)
  /** `room` is `opening` when a room may still turn up that has to be closed. */
  | { readonly phase: "settled"; readonly room: "opening" | "over" };

/** What is known of a task that has left, or may have. */
interface TaskOut {
  /** The device has shown that it has the task. */
  readonly accepted: boolean;
  readonly away: boolean;
  /** A frame of the device was dropped because it was too large: perhaps its answer. */
  readonly oversized: boolean;
}

/** How far an ask had come when it ended; decides what its sentence may claim. */
export type Stage = "not_rung" | "rung" | "joined" | "sent";

/** Whether the task reached the device, as stored with the call. */
export type Reached = "no" | "maybe" | "yes";

/** What a device says about its own failure or refusal: outside data. */
export type DeviceWords = NonNullable<ReplyEnvelope["error"]>;

/** How an ask ended, before it is put into words for the agent. */
export interface Ending {
  readonly outcome: AskResult["outcome"];
  /** Left out where the outcome has no reasons, and when the mesh itself failed. */
  readonly reason?: Reason | undefined;
  readonly stage: Stage;
  readonly reached: Reached;
  /** True when nobody can say whether the device acted. Never true before the task may have left. */
  readonly mayHaveHappened: boolean;
  readonly data?: ReplyEnvelope["data"];
  readonly words?: DeviceWords | undefined;
  /** What exactly is wrong with a refused request: part of the sentence, with outside text already quoted. */
  readonly detail?: string | undefined;
}

/** A request that is refused, with the part of the sentence that says why. */
export interface Refusal {
  readonly reason: Extract<
    Reason,
    | "no_such_device"
    | "no_action"
    | "bad_inputs"
    | "unknown_action"
    | "action_denied"
    | "task_too_large"
    | "too_many_asks"
  >;
  readonly detail: string;
}

export type AskEvent =
  | { readonly type: "validated" }
  /** The request is wrong: found before it was stored, or against what the device declared on joining. */
  | { readonly type: "refused"; readonly refusal: Refusal }
  | { readonly type: "created" }
  /** No earlier ask to this device is open any more. */
  | { readonly type: "turn_came" }
  | { readonly type: "no_connection" }
  | { readonly type: "no_room" }
  | { readonly type: "bad_token" }
  /** `refusal`: the room cannot carry this task, whatever the device says. */
  | { readonly type: "room_opened"; readonly refusal?: Refusal | undefined }
  | { readonly type: "room_failed"; readonly kind: RoomErrorKind }
  | { readonly type: "reaching_stored" }
  | { readonly type: "rung" }
  | { readonly type: "ring_failed"; readonly kind: RingErrorKind }
  | { readonly type: "joined"; readonly capabilities?: readonly Capability[] | undefined }
  | { readonly type: "checked" }
  /** The person did not allow the connection. */
  | { readonly type: "connection_refused" }
  | { readonly type: "away"; readonly graceMs: number }
  | { readonly type: "back" }
  | { readonly type: "left"; readonly delivered: Delivered }
  | { readonly type: "offer_stored" }
  | { readonly type: "sent"; readonly status: "handed" }
  | { readonly type: "sent"; readonly status: "not_handed"; readonly kind: RoomErrorKind }
  | { readonly type: "accepted" }
  | { readonly type: "progress"; readonly note?: string | undefined; readonly pct?: number | undefined }
  | { readonly type: "reply"; readonly reply: ReplyEnvelope; readonly fits: boolean }
  /** A frame of the device was dropped because of its size. */
  | { readonly type: "oversized" }
  | { readonly type: "deadline"; readonly which: "join" | "reply" | "grace" }
  | { readonly type: "room_closed"; readonly kind: RoomErrorKind; readonly delivered: Delivered }
  /** The run was cancelled or its time is over, or an operator ended the ask. */
  | { readonly type: "cancelled" }
  /** The mesh stops now, or stopped and finds the ask in its store. */
  | { readonly type: "mesh_stopped" }
  /** A store that must come before the next step failed. */
  | { readonly type: "store_failed" }
  /** Somebody else settled the call; that outcome stands. */
  | { readonly type: "overtaken"; readonly result: AskResult }
  /** A contract was broken by our own code. The ask still ends, and says no more than is certain. */
  | { readonly type: "broken" };

export type AskEffect =
  | { readonly type: "create" }
  | { readonly type: "take_turn" }
  | { readonly type: "open_room" }
  | { readonly type: "store_reaching" }
  | { readonly type: "ring" }
  | { readonly type: "stop_ringing" }
  | { readonly type: "note_rung" }
  | { readonly type: "note_joined"; readonly capabilities?: readonly Capability[] | undefined }
  | { readonly type: "check"; readonly capabilities: readonly Capability[] }
  /** The first of these replaces the join deadline by the reply deadline. */
  | { readonly type: "store_offered" }
  | { readonly type: "send_task" }
  | { readonly type: "note_sent" }
  | { readonly type: "store_accepted" }
  | { readonly type: "note_progress"; readonly note?: string | undefined; readonly pct?: number | undefined }
  | { readonly type: "note_away"; readonly graceMs: number }
  | { readonly type: "note_back" }
  | { readonly type: "note_late_reply"; readonly outcome: ReplyEnvelope["outcome"] }
  /** Closes the room; `cancelTask` tells the device first, best effort, that its task is over. */
  | { readonly type: "close_room"; readonly cancelTask: boolean }
  | { readonly type: "settle"; readonly ending: Ending }
  | { readonly type: "adopt"; readonly result: AskResult };

export interface Step {
  readonly state: AskState;
  readonly effects: readonly AskEffect[];
}

/** The state of one phase. */
export type In<Phase extends AskState["phase"]> = Extract<AskState, { phase: Phase }>;

export const INITIAL_STATE: AskState = { phase: "validating" };
