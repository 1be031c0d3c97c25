/** The honest end of calls that nobody can continue: their tool is gone, or could not store how they ended. */
import type { AskResult } from "@leafmesh/protocol";
import { endingSettlement, endingStory } from "../bridge/endings.ts";
import type { PendingCalls } from "../calls/pending-calls.ts";
import type { CallRecord } from "../storage/contract.ts";

/** Settles an open call by how far it got. If somebody else settles it meanwhile, their result is the one given. */
export async function settleAsLost(calls: PendingCalls, call: CallRecord, at: number): Promise<unknown> {
  if (call.face === "bridge") {
    const settlement = endingSettlement(call, "lost");
    const moved = await calls.settle(call, settlement, endingStory(call.id, "lost"));
    return moved.status === "settled" ? moved.call.result : settlement.result;
  }
  const result = lostResult(call);
  const moved = await calls.settle(
    call,
    { state: call.reached === "no" ? "undeliverable" : "lost", reached: call.reached, result },
    {
      events: [
        {
          type: "ask.settled",
          payload: { ask_id: call.id, duration_ms: Math.max(0, Math.round(at - call.createdAt)), result },
        },
      ],
    },
  );
  return moved.status === "settled" ? moved.call.result : result;
}

function lostResult(call: CallRecord): AskResult {
  const device = call.device === undefined ? {} : { device: call.device };
  if (call.reached === "no") {
    return {
      outcome: "unreachable",
      success: false,
      reason: "mesh_restarted",
      error: "The mesh restarted before the task was sent, so nothing happened. Ask again if it is still wanted.",
      ...device,
    };
  }
  return {
    outcome: "failed",
    success: false,
    reason: "mesh_restarted",
    error: "The mesh restarted before the answer came. The device may have done it: check before repeating it.",
    may_have_happened: true,
    ...device,
  };
}
