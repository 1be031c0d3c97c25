/** What an executor tells the program that it belongs to, for a screen or a log. */
import type { Suspension } from "@leafmesh/protocol";
import type { LeafMeshError } from "../errors.ts";
import type { ConnectionState } from "../follow.ts";
import type { Answer } from "./answer.ts";
import type { ToolCall } from "./tool.ts";

export type ExecutorEvent =
  /** Its tool begins. */
  | { readonly type: "started"; readonly call: ToolCall }
  | { readonly type: "answered"; readonly call: ToolCall; readonly answer: Answer }
  /** The mesh has the answer. */
  | { readonly type: "delivered"; readonly call: ToolCall }
  /** The mesh does not want the answer: the call was answered or ended before. Final. */
  | { readonly type: "refused"; readonly call: ToolCall; readonly error: LeafMeshError }
  /** The answer could not be brought in time. */
  | { readonly type: "undelivered"; readonly call: ToolCall; readonly error: unknown }
  /** It came too late to be run, and was not. */
  | { readonly type: "stale"; readonly call: ToolCall; readonly lateByMs: number }
  /** It came without the token that answers it, so this key may look at calls but not answer them. */
  | { readonly type: "no_token"; readonly call: ToolCall }
  /** The mesh already has an answer to it from here. */
  | { readonly type: "repeated"; readonly call: ToolCall }
  /** Another tab of this browser is at it. */
  | { readonly type: "elsewhere"; readonly call: ToolCall }
  /** Its tool did not end although nobody waits for it any more. */
  | { readonly type: "abandoned"; readonly call: ToolCall }
  /** The ledger does not work. Calls are then refused rather than run unrecorded. */
  | { readonly type: "ledger_failed"; readonly call: ToolCall; readonly error: unknown }
  /** The run waits for a person's decision, which is not an executor's matter: see `run.decide`. */
  | { readonly type: "approval_wanted"; readonly runId: string; readonly suspension: Suspension }
  | { readonly type: "connection"; readonly connection: ConnectionState };
