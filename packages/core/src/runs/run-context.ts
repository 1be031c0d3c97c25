import type { Tool, ToolDefinition } from "../tools/contract.ts";
import type { RunControl } from "./run-control.ts";
import type { RunServices } from "./run-services.ts";

/** A run under way: what stays the same through its turns. */
export interface RunContext {
  readonly control: RunControl;
  readonly services: RunServices;
  /** Empty when the run can only be closed. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** Those of `tools` that the model is shown: not what only a waiting client could execute. */
  readonly definitions: readonly ToolDefinition[];
  readonly toolCallTimeoutMs: number;
  readonly parallelToolCalls: boolean;
  readonly toolResultMaxChars: number;
}
