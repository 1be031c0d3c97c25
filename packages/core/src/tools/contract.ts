/** What a tool is to an agent, and how the run engine drives it. */
import type { DeviceTool } from "@leafmesh/protocol";
import type { Agent, Mesh } from "../config/mesh.ts";
import type { ImagePart } from "../models/contract.ts";
import type { CallRecord, Write } from "../storage/contract.ts";

export type JsonSchema = { readonly [key: string]: unknown };

export interface ToolDefinition {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonSchema;
}

/** One tool call of a turn. */
export interface ToolInvocation {
  readonly sessionId: string;
  readonly runId: string;
  readonly agent: string;
  /** Model call within the run, from 1. */
  readonly turn: number;
  /** Place among the calls of its turn, from 0. */
  readonly position: number;
  /** The model provider's id for the call; means something only within its turn. */
  readonly providerCallId: string;
  /** Parsed arguments; always an object. */
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface ToolScope {
  readonly invocation: ToolInvocation;
  /**
   * Aborted when the run is cancelled or its deadline passed, or when the mesh stops; `reason` is a `RunInterrupted`
   * that says which. The tool settles what it has open, then returns.
   */
  readonly signal: AbortSignal;
  /** Wall clock, milliseconds: the run ends then. */
  readonly deadlineAtMs: number;
}

/** What goes into the history and to the model. */
export interface ToolResult {
  readonly success: boolean;
  /** Text the model reads. */
  readonly content: string;
  /** Shown to the model as images and never stored; `uploads` is what the history keeps of them. */
  readonly images?: readonly ImagePart[] | undefined;
  readonly uploads?: readonly string[] | undefined;
  /** The call record to be marked used in the same commit that writes the result into the history. */
  readonly callId?: string | undefined;
  /**
   * Stored in the same commit, before the result: what is kept of a call that never left the mesh. Left out of it when
   * the store refuses one of them.
   */
  readonly records?: readonly Write[] | undefined;
  /** `content` is as long as it may be: it is not cut at `limits.tool_result_max_chars` any more. */
  readonly isCapped?: boolean | undefined;
}

/** A call whose outcome comes from outside and is stored before anybody is told: the tool waits for it, with or without its run. */
export interface WaitingCall {
  readonly isEnded: boolean;
  /** Tells `watcher` once the outcome is stored; takes the place of an earlier watcher. Call it only before the end. */
  watch(watcher: CallWatcher): void;
  /** As the abort of the scope's signal, which the call does not listen to any more. `reason` is a `RunInterrupted`. */
  interrupt(reason: Error): void;
  /** For the history; waits for the end. Never rejects for what a tool call may meet. */
  result(): Promise<ToolResult>;
}

export interface CallWatcher {
  callEnded(): void;
}

export interface Tool {
  readonly definition: ToolDefinition;
  /** True for tools whose calls have a deadline of their own: `tool_call_timeout` does not apply to them. */
  readonly ownDeadline: boolean;
  /** The client that submitted the run executes the tool: the mesh only shows it, to runs that wait for their client. */
  readonly isClientOwned?: boolean | undefined;
  /** Nothing is executed before a person has said so. */
  readonly requiresApproval?: boolean | undefined;
  /** Arguments that are JSON but not an object count as none, instead of being refused. */
  readonly takesAnyArguments?: boolean | undefined;
  /** Never rejects for what a tool call may meet; a rejection is a bug and becomes a failed tool call. */
  execute(scope: ToolScope): Promise<ToolResult>;
  /**
   * What the engine calls instead of `execute` where it is there: hands over a call that only waits, so that its run may
   * leave memory meanwhile. Such a call ends by itself before the deadline of its scope.
   */
  begin?(scope: ToolScope): Promise<ToolResult | WaitingCall>;
  /**
   * Finishes a call that a dead process left behind, from its stored record: continues it or settles it honestly, or
   * gives the result of one that is settled already. Never repeats what may have happened. Left out by tools without
   * records.
   */
  recover?(call: CallRecord, scope: ToolScope): Promise<ToolResult>;
}

/** Tools of an agent for one run; asked once, when the run starts or resumes. */
export interface ToolProvider {
  /** `mesh` is the one the run started with; a reload does not change it under the run. */
  toolsFor(
    agent: Agent,
    run: {
      readonly sessionId: string;
      readonly runId: string;
      readonly mesh: Mesh;
      /** What the client had declared when the run was submitted. */
      readonly deviceTools?: readonly DeviceTool[] | undefined;
    },
  ): Promise<readonly Tool[]>;
}
