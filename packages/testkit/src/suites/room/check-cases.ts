import { expect, it } from "vitest";
import type { RoomSuiteOptions } from "./harness.ts";
import { startRoomMesh } from "./mesh.ts";
import { type Stage, titleOf } from "./stage.ts";

const CHECK_WITHIN_MS = 10_000;

/** The test on save: what it proves, and what it says otherwise. */
export function checkCases(stage: Stage, { cannot = {} }: RoomSuiteOptions): void {
  it("is asked whether its credential works, without a task", async () => {
    const { service, mesh } = await stage.world();
    expect(await mesh.provider.check(AbortSignal.timeout(CHECK_WITHIN_MS))).toEqual({ status: "active" });
    expect((await service.tasksTaken?.()) ?? 0).toBe(0);
    await mesh.provider.close();
    await mesh.provider.close();
  });

  it.each(["failing", "readable"] as const)("is found to be %s, with a reason for people", async (status) => {
    // Test context is not handed to the tests of a table.
    const why = cannot[status];
    const { service, mesh, printed } = await stage.world();
    if (!service.refuseCheck || why !== undefined) return;
    const record = await service.refuseCheck(status);
    const { clock, logger } = mesh.dependencies;
    const other = startRoomMesh(service.definition, record, clock, logger);
    const result = await other.provider.check(AbortSignal.timeout(CHECK_WITHIN_MS));
    await other.close();
    expect(result).toEqual({ status, reason: expect.stringMatching(/^["A-Z]/) });
    if (result.status !== "active") printed.push(result.reason);
  });

  for (const status of ["failing", "readable"] as const) {
    if (cannot[status] !== undefined) it.skip(titleOf(`is found to be ${status}`, cannot[status]), () => {});
  }
}
