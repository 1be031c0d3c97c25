/** Waits for one tool call, and no longer than it may take. */
import type { Timer } from "@leafmesh/protocol";
import type { Tool, ToolInvocation, ToolResult, ToolScope } from "../tools/contract.ts";
import type { RunContext } from "./run-context.ts";
import type { RunControl } from "./run-control.ts";

/** How long a tool may take to settle what it has open once its run is interrupted. */
export const SETTLE_GRACE_MS = 5_000;

/** A failed tool call, as the model reads it. */
export function failedCall(error: string): ToolResult {
  return { success: false, content: JSON.stringify({ success: false, error }) };
}

/**
 * Runs `work`, which is the tool's `execute` or `recover`. `undefined` means that a shutdown came first and the call is
 * left to the next start. Never rejects.
 */
export function runTool<Result>(
  context: RunContext,
  tool: Tool,
  invocation: ToolInvocation,
  work: (scope: ToolScope) => Promise<Result>,
): Promise<Result | ToolResult | undefined> {
  const { control, toolCallTimeoutMs } = context;
  const { clock, logger } = context.services;
  const own = tool.ownDeadline ? undefined : new AbortController();
  const scope: ToolScope = {
    invocation,
    signal: own?.signal ?? control.signal,
    deadlineAtMs: control.deadlineAtMs,
  };

  return new Promise((resolve) => {
    let limit: Timer | undefined;
    let grace: Timer | undefined;
    const end = (result: Result | ToolResult | undefined): void => {
      limit?.cancel();
      grace?.cancel();
      control.signal.removeEventListener("abort", onInterruption);
      resolve(result);
    };
    const onInterruption = (): void => {
      own?.abort(control.signal.reason);
      limit?.cancel();
      grace = clock.schedule(SETTLE_GRACE_MS, () => {
        logger.warn("a tool did not settle its call after an interruption", { tool: tool.definition.name, invocation });
        end(interruptedCall(control));
      });
    };

    if (own) {
      limit = clock.schedule(toolCallTimeoutMs, () => {
        own.abort(new Error("tool_call_timeout"));
        end(tookTooLong(toolCallTimeoutMs));
      });
    }
    if (control.signal.aborted) onInterruption();
    else control.signal.addEventListener("abort", onInterruption);

    started(work, scope).then(end, (error: unknown) => {
      if (control.interruption) return end(interruptedCall(control));
      logger.error("a tool failed in a way it should not", { tool: tool.definition.name, invocation, error });
      end(failedCall("The tool failed inside the mesh. It may have happened; check before repeating it."));
    });
  });
}

/** What becomes of a call that was not started before its run was interrupted. */
export function notStarted(control: RunControl): ToolResult | undefined {
  if (!control.isOver) return undefined;
  return failedCall(`Not executed: ${whyOver(control)}.`);
}

async function started<Result>(work: (scope: ToolScope) => Promise<Result>, scope: ToolScope): Promise<Result> {
  return work(scope);
}

/** What becomes of a call that did not settle although its run was interrupted. */
export function interruptedCall(control: RunControl): ToolResult | undefined {
  if (!control.isOver) return undefined;
  return failedCall(`Stopped: ${whyOver(control)}. It may have happened; check before repeating it.`);
}

function whyOver(control: RunControl): string {
  return control.interruption === "timed_out" ? "the run was past its deadline" : "the run was cancelled";
}

function tookTooLong(timeoutMs: number): ToolResult {
  return failedCall(
    `The tool did not answer within ${timeoutMs / 1000} s. It may have happened; check before repeating it.`,
  );
}
