import { randomId } from "@leafmesh/protocol";
import type { FakeClock } from "@leafmesh/testkit";
import type { PendingCalls } from "../../calls/index.ts";
import type { Tool, ToolProvider, ToolResult, ToolScope } from "../../tools/contract.ts";

export function tool(
  name: string,
  execute: (scope: ToolScope) => ToolResult | Promise<ToolResult>,
  more: Partial<Tool> = {},
): Tool {
  return {
    definition: { name, description: name, parameters: { type: "object" } },
    ownDeadline: false,
    execute: async (scope) => execute(scope),
    ...more,
  };
}

export function done(content: string, more: Partial<ToolResult> = {}): ToolResult {
  return { success: true, content, ...more };
}

export function provide(...tools: Tool[]): ToolProvider {
  return { toolsFor: async () => tools };
}

/** What a call was asked to do, told apart whatever ids the model gave. */
export function callName({ invocation }: ToolScope): string {
  return `${invocation.runId}:${invocation.turn}:${invocation.position}`;
}

/**
 * A tool with records, as `device_action` has them: stores, says that it may have left, acts, settles. `acts` counts
 * what really happened outside.
 */
export function recordingTool(
  name: string,
  pending: () => PendingCalls,
  acts: Map<string, number>,
  clock: FakeClock,
): Tool {
  const result = (outcome: "done" | "failed" | "unreachable") => ({ outcome, success: outcome === "done" }) as const;
  const toResult = (callId: string, stored: unknown): ToolResult => ({
    success: (stored as { success: boolean }).success,
    content: JSON.stringify(stored),
    callId,
  });
  return tool(
    name,
    async (scope) => {
      const { providerCallId, arguments: given, sessionId, runId, agent, turn, position } = scope.invocation;
      const id = randomId("ask");
      const opened = await pending().open({
        id,
        sessionId,
        runId,
        agent,
        turn,
        position,
        providerCallId,
        tool: name,
        arguments: given,
        expiresAt: clock.nowMs() + 60_000,
      });
      if (opened.status !== "moved") return { success: false, content: "gone" };
      const offered = await pending().advance(opened.call, { state: "offered", reached: "maybe" });
      if (offered.status !== "moved") return { success: false, content: "gone" };
      acts.set(callName(scope), (acts.get(callName(scope)) ?? 0) + 1);
      await pending().settle(offered.call, { state: "answered", reached: "yes", result: result("done") });
      return toResult(id, result("done"));
    },
    {
      ownDeadline: true,
      async recover(record) {
        const lost = result(record.reached === "no" ? "unreachable" : "failed");
        const state = record.reached === "no" ? "undeliverable" : "lost";
        const moved = await pending().settle(record, { state, reached: record.reached, result: lost });
        return toResult(record.id, moved.status === "settled" ? moved.call.result : lost);
      },
    },
  );
}
