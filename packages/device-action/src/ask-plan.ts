import type { ToolInvocation } from "@leafmesh/core";
import { type Approval, Secret, type TaskEnvelope } from "@leafmesh/protocol";
import type { ConnectionPool } from "./connections.ts";

/** A request that was found to be right, with what its ask needs to know. Held while the ask waits, so kept small. */
export interface AskPlan {
  readonly askId: string;
  readonly invocation: ToolInvocation;
  readonly meshName: string;
  readonly deviceId: string;
  readonly pushToken: Secret;
  readonly action: string;
  readonly inputs: TaskEnvelope["inputs"];
  /** Name of the connection that rings the device. */
  readonly connection: string;
  /** Name of the connection where mesh and device meet; `undefined` for the built-in rooms. */
  readonly room: string | undefined;
  readonly approval: Approval;
  readonly joinTimeoutMs: number;
  readonly replyTimeoutMs: number;
  /** On the monotonic clock: the ask has its outcome by then. */
  readonly endsByMs: number;
  readonly connections: ConnectionPool;
}

/** The plan of an ask whose device was rung and has its task: what was for these alone is let go. */
export function afterTask(plan: AskPlan): AskPlan {
  return { ...plan, invocation: { ...plan.invocation, arguments: NOTHING }, inputs: NOTHING, pushToken: USED };
}

const NOTHING = {};
const USED = new Secret("");
