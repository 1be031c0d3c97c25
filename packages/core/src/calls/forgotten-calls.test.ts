import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { recordingLogger } from "../runs/testing/logger.ts";
import { memoryBackend } from "../runs/testing/stores.ts";
import type { CallRecord, RunRecord } from "../storage/contract.ts";
import { closeForgottenCalls } from "./forgotten-calls.ts";
import { createPendingCalls } from "./pending-calls.ts";

async function storeWith(status: RunRecord["status"], call: Pick<CallRecord, "face" | "state" | "reached">) {
  const clock = createFakeClock();
  const backend = await memoryBackend(clock);
  const at = clock.nowMs();
  const shared = { runId: "r", sessionId: "s", agent: "a", turn: 1, face: call.face };
  await backend.commit([
    {
      kind: "session.create",
      session: { id: "s", meshName: "m", entryPoint: "e", createdAt: at, lastActiveAt: at, context: {} },
    },
    {
      kind: "run.create",
      run: { id: "r", sessionId: "s", agent: "a", status, input: "", createdAt: at, deadlineAt: at + 9, version: 1 },
    },
    { kind: "wait.create", wait: { ...shared, id: "w", state: "open", deadlineAt: at, callIds: ["c"] } },
    {
      kind: "call.create",
      call: {
        ...shared,
        ...call,
        id: "c",
        waitId: "w",
        position: 0,
        providerCallId: "call_0",
        tool: "t",
        arguments: {},
        expiresAt: at,
        createdAt: at,
        version: 1,
      },
    },
  ]);
  const logger = recordingLogger();
  const calls = createPendingCalls({ backend, clock, newId: (prefix) => prefix });
  await closeForgottenCalls({ backend, calls, clock, logger });
  return { backend, logger };
}

describe("at the start, a call", () => {
  it.each(["succeeded", "failed", "cancelled", "timed_out"] as const)(
    "that is open although its run has %s is settled and used, with its event",
    async (status) => {
      const { backend, logger } = await storeWith(status, { face: "bridge", state: "offered", reached: "maybe" });
      expect(await backend.call("c")).toMatchObject({ state: "used", result: { status: "error" } });
      expect(await backend.wait("w")).toMatchObject({ state: "complete" });
      expect(await backend.events("s")).toMatchObject([
        { type: "device_tool_call.settled", payload: { call_id: "c", status: "lost" } },
      ]);
      expect(logger.lines).toMatchObject([{ level: "warn", fields: { count: 1 } }]);
    },
  );

  it("that is settled and unused although its run has ended is used", async () => {
    const { backend } = await storeWith("succeeded", { face: "bridge", state: "answered", reached: "yes" });
    expect(await backend.call("c")).toMatchObject({ state: "used" });
    expect(await backend.events("s")).toEqual([]);
  });

  it.each(["queued", "running", "suspended"] as const)("of a run that is %s is left to that run", async (status) => {
    for (const state of ["offered", "answered"] as const) {
      const { backend, logger } = await storeWith(status, { face: "bridge", state, reached: "maybe" });
      expect(await backend.call("c")).toMatchObject({ state });
      expect(logger.lines).toEqual([]);
    }
  });

  it("of a device ends as its own face says", async () => {
    const { backend } = await storeWith("failed", { face: "device", state: "offered", reached: "maybe" });
    expect(await backend.call("c")).toMatchObject({
      state: "used",
      outcome: "failed",
      result: { reason: "mesh_restarted", may_have_happened: true },
    });
  });
});
