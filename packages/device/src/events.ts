/** What a device reports: how each ring ended, and what happens on the way. */
import type { Approval, ReplyOutcome } from "@leafmesh/protocol";
import type { JoinErrorKind, RoomEnd } from "./connector.ts";
import type { RingFault } from "./ring-gate.ts";

/**
 * Why a ring was left alone. `repeated`: this ask is being served, or nothing is owed for it any more. `no_connector`: its
 * room needs a connector that this device was not given. `too_many`: as many asks as allowed are under way.
 * `ledger_unavailable`: the ledger cannot be read, so nobody can say whether the ask was served. `device_closed`: after
 * `close`.
 */
export type IgnoreReason =
  | RingFault
  | "repeated"
  | "no_connector"
  | "too_many"
  | "ledger_unavailable"
  | "device_closed";

/** How a ring ended. */
export type RingDisposition =
  /** Nothing was done, and the mesh was told nothing. */
  | { readonly status: "ignored"; readonly reason: IgnoreReason; readonly detail: string }
  /** The person did not allow the connection, or nobody could be asked. `told`: the mesh knows. */
  | { readonly status: "refused"; readonly reason: "not_allowed" | "no_approve_function"; readonly told: boolean }
  /** The person gave no answer while the ring lived. */
  | { readonly status: "no_decision" }
  | { readonly status: "not_joined"; readonly reason: JoinErrorKind; readonly detail: string }
  /** In the room, but without a task for this ask. */
  | {
      readonly status: "no_task";
      readonly reason: RoomEnd | "no_task_in_time" | "wrong_task" | "device_closed";
      readonly detail: string;
    }
  /**
   * There is an answer, and it is the ask's for ever. `delivered`: the room has it. `repeated`: it was given before, and
   * this time nothing was done.
   */
  | {
      readonly status: "answered";
      readonly outcome: ReplyOutcome;
      readonly code?: string | undefined;
      readonly delivered: boolean;
      readonly repeated: boolean;
    };

/** What happens on the way. `ask` is the ask's id. */
export type DeviceEvent =
  | {
      readonly type: "ring";
      readonly ask: string;
      readonly mesh?: string | undefined;
      readonly approval: Approval;
      readonly source?: string | undefined;
    }
  | { readonly type: "ignored"; readonly reason: IgnoreReason; readonly detail: string }
  /** The person is being asked. */
  | { readonly type: "asking"; readonly ask: string }
  | { readonly type: "allowed"; readonly ask: string }
  | { readonly type: "refused"; readonly ask: string; readonly told: boolean }
  | { readonly type: "joined"; readonly ask: string; readonly provider: string }
  | { readonly type: "away"; readonly ask: string }
  | { readonly type: "back"; readonly ask: string }
  | { readonly type: "task"; readonly ask: string; readonly action: string; readonly budgetMs: number }
  /** Stored; the work begins. */
  | { readonly type: "accepted"; readonly ask: string; readonly action: string }
  /** The handler ended, or was given up on. */
  | { readonly type: "handled"; readonly ask: string; readonly action: string; readonly durationMs: number }
  | { readonly type: "cancelled"; readonly ask: string; readonly reason: string }
  | {
      readonly type: "replied";
      readonly ask: string;
      readonly outcome: ReplyOutcome;
      readonly code?: string | undefined;
      readonly repeated: boolean;
    }
  | { readonly type: "delivered"; readonly ask: string }
  /** The room ended without this device leaving it. */
  | { readonly type: "closed"; readonly ask: string; readonly reason: RoomEnd; readonly detail: string }
  /** The last one of each ask. */
  | { readonly type: "settled"; readonly ask: string; readonly disposition: RingDisposition };
