import { expect, it } from "vitest";
import type { RoomSuiteOptions } from "./harness.ts";
import { isClosed, isTask, type Stage, titleOf } from "./stage.ts";

/** What the contract gives `Room.close`. */
const CLOSE_WITHIN_MS = 5_000;
const MOMENT_MS = 300;

/** How rooms end, and that nothing of them is of use afterwards. */
export function endingCases(stage: Stage, { cannot = {} }: RoomSuiteOptions): void {
  it("tells nothing and takes nothing once the mesh has closed it", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await Promise.all([meshRoom.room.close("nobody waits"), meshRoom.room.close("again")]);
    await meshRoom.ended;
    expect(await meshRoom.task()).toMatchObject({ status: "not_handed", error: { name: "RoomError" } });
    await meshRoom.room.cancel("ask_1", "too late");
    await device.events.next(isClosed);
    await device.events.ended;
    expect(device.events.takeAll()).toEqual([]);
    expect((await service.tasksTaken?.()) ?? 0).toBe(0);
    expect(meshRoom.takeAll()).toEqual([]);
  });

  it.skipIf(cannot.expire)(titleOf("has a credential that ends by itself", cannot.expire), async ({ skip }) => {
    const { service, mesh } = await stage.world();
    if (!service.expire) return skip("the harness has no `expire`");
    const meshRoom = await mesh.open();
    service.expire();
    const attempt = service.connector().join(meshRoom.ring, { signal: AbortSignal.timeout(8_000) });
    await expect(attempt).rejects.toMatchObject({ name: "JoinError", kind: "over" });
    expect(meshRoom.takeAll().filter(({ type }) => type === "joined")).toEqual([]);
  });

  it.skipIf(cannot.end)(
    titleOf("says what it knows of the task when it ends by itself", cannot.end),
    async ({ skip }) => {
      const { service, mesh, meshRoom, device, printed } = await stage.meeting();
      if (!service.end) return skip("the harness has no `end`");
      await meshRoom.task();
      await device.events.next(isTask);
      device.room.send({ type: "accepted", id: "ask_1" });
      await meshRoom.event("frame");
      const empty = await mesh.open();
      for (const { ring } of [meshRoom, empty]) await service.end(ring);
      const ends = [await meshRoom.event("closed"), await empty.event("closed")];
      expect(ends.map(({ delivered }) => delivered)).toEqual(["yes", "no"]);
      for (const { error } of ends) {
        expect(error.name).toBe("RoomError");
        printed.push(error.message);
      }
      await Promise.all([meshRoom.ended, empty.ended]);
      expect([...meshRoom.takeAll(), ...empty.takeAll()]).toEqual([]);
      expect(await empty.task()).toMatchObject({ status: "not_handed" });
      await device.events.next(isClosed);
    },
  );

  it.skipIf(cannot.stall)(titleOf("lets every call end when nobody answers", cannot.stall), async ({ skip }) => {
    const { service, mesh, meshRoom } = await stage.meeting();
    if (!service.stall) return skip("the harness has no `stall`");
    const undo = service.stall();
    try {
      const opening = mesh.open({}, { signal: AbortSignal.timeout(MOMENT_MS) });
      await expect(opening).rejects.toMatchObject({ name: "RoomError", kind: "unavailable" });
      expect(await mesh.provider.check(AbortSignal.timeout(MOMENT_MS))).toMatchObject({ status: "readable" });
      const sent = await meshRoom.task({}, AbortSignal.timeout(MOMENT_MS));
      expect(sent.status === "handed" || sent.error.kind === "unavailable").toBe(true);
      const startedMs = performance.now();
      await Promise.all([meshRoom.room.cancel("ask_1", "over"), meshRoom.room.close("over")]);
      expect(performance.now() - startedMs).toBeLessThan(CLOSE_WITHIN_MS);
      await meshRoom.ended;
    } finally {
      undo();
    }
  });

  it("gets no device in that has no time left", async () => {
    const { service, mesh } = await stage.world();
    const meshRoom = await mesh.open();
    const attempt = service.connector().join(meshRoom.ring, { signal: AbortSignal.abort() });
    await expect(attempt).rejects.toMatchObject({ name: "JoinError", kind: "unreachable" });
    await meshRoom.room.close("nobody came");
    expect(meshRoom.takeAll()).toEqual([]);
  });

  it("ends a device's wait for a receipt with its signal", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await service.cut(meshRoom.ring, { forGood: true });
    // A provider that puts a device out has told it already.
    if (device.room.send({ type: "accepted", id: "ask_1" }) === "ended") return;
    expect(await device.room.acked(AbortSignal.timeout(20))).toBe(false);
  });
}
