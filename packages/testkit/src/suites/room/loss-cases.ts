import { expect, it } from "vitest";
import type { RoomSuiteOptions } from "./harness.ts";
import { isTask, type Stage, tasksAfterTheEnd } from "./stage.ts";

/** A device that is gone, and what the mesh may then say of its task. `no` is a promise: it never comes, either. */
export function lossCases(stage: Stage, { holdsTask = false, cannot = {} }: RoomSuiteOptions): void {
  it("does not know whether a device that is lost with its task has done it", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await meshRoom.task();
    await device.events.next(isTask);
    await service.cut(meshRoom.ring, { forGood: true });
    const { reason, delivered } = await meshRoom.event("left");
    expect([reason, delivered]).toEqual(["lost", expect.stringMatching(/^(maybe|yes)$/)]);
  });

  it("knows that a device that said something of its task has it, when it is lost", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await meshRoom.task();
    await device.events.next(isTask);
    device.room.send({ type: "accepted", id: "ask_1" });
    await meshRoom.event("frame");
    await service.cut(meshRoom.ring, { forGood: true });
    expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "lost", delivered: "yes" });
  });

  it("knows that a device that is lost before its task has done nothing, and sends none after it said so", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await service.cut(meshRoom.ring, { forGood: true });
    expect(await meshRoom.event("away")).toMatchObject({ graceMs: expect.any(Number) });
    expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "lost", delivered: "no" });
    expect(await meshRoom.task()).toMatchObject({ status: "not_handed", error: { name: "RoomError" } });
    service.restore?.(meshRoom.ring);
    await meshRoom.room.close("lost");
    expect((await service.tasksTaken?.()) ?? 0).toBe(0);
    expect(await tasksAfterTheEnd(device)).toEqual([]);
  });

  it("sees a device go that says goodbye, and sends it no task after that", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await Promise.all([device.room.leave("not now"), device.room.leave("again")]);
    expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "left", delivered: "no" });
    expect(await meshRoom.task()).toMatchObject({ status: "not_handed", error: { name: "RoomError" } });
    expect((await service.tasksTaken?.()) ?? 0).toBe(0);
  });

  it("never says of a task that was sent to a device that is away that it has it", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await service.cut(meshRoom.ring, { forGood: true });
    const sent = await meshRoom.task();
    const { delivered } = await meshRoom.event("left");
    expect(delivered).not.toBe("yes");
    if (sent.status === "not_handed") expect(delivered).toBe("no");
    if (delivered !== "no") return;
    service.restore?.(meshRoom.ring);
    await meshRoom.room.close("lost");
    expect(await tasksAfterTheEnd(device)).toEqual([]);
  });

  it.skipIf(!holdsTask || cannot.resume)("has the task kept for a device that is away for a moment", async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await service.cut(meshRoom.ring);
    await device.events.next(({ type }) => type === "away");
    expect(await meshRoom.task()).toEqual({ status: "handed" });
    await device.events.next(isTask);
    device.room.send({ type: "reply", id: "ask_1", outcome: "done" });
    await meshRoom.event("frame");
    expect(await tasksAfterTheEnd(device)).toEqual([]);
  });
}
