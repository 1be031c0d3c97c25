import { expect, it } from "vitest";
import type { RoomSuiteOptions } from "./harness.ts";
import { isTask, type Stage, titleOf } from "./stage.ts";

/** Larger than any envelope. */
const TOO_LARGE_CHARACTERS = 70_000;
/** What a room says of a message that it cannot take: that it dropped it, or that the device is gone for it. */
const NOT_TAKEN = ["dropped", "left", "closed"] as const;

/** Who is believed, and what. */
export function trustCases(stage: Stage, { cannot = {} }: RoomSuiteOptions): void {
  it(titleOf("believes nobody but the device of the room", cannot.stranger), async () => {
    const { service, meshRoom, device } = await stage.meeting();
    await meshRoom.task();
    await device.events.next(isTask);
    const forged = JSON.stringify({ type: "reply", id: "ask_1", outcome: "declined" });
    await service.inject?.(meshRoom.ring, "stranger", forged);
    if (service.inject && cannot.stranger === undefined) await meshRoom.event("dropped");
    device.room.send({ type: "reply", id: "ask_1", outcome: "done" });
    expect((await meshRoom.event("frame")).envelope).toMatchObject({ outcome: "done" });
    expect(meshRoom.takeAll().filter(({ type }) => type !== "dropped")).toEqual([]);
  });

  it.each([
    ["no JSON", "{"],
    ["an outcome that does not exist", JSON.stringify({ type: "reply", id: "ask_1", outcome: "perhaps" })],
    ["an envelope of a mesh", JSON.stringify({ type: "cancel", id: "ask_1", reason: "?" })],
  ])("takes nothing from the device that is no envelope of a device: %s", async (_title, text) => {
    const { service, meshRoom } = await stage.meeting();
    if (!service.inject) return;
    await meshRoom.task();
    await service.inject(meshRoom.ring, "device", text);
    const event = await meshRoom.eventOf([...NOT_TAKEN, "frame"]);
    expect(NOT_TAKEN).toContain(event.type);
    expect(meshRoom.takeAll().filter(({ type }) => type === "frame")).toEqual([]);
  });

  it(titleOf("knows that what was too large may have been the answer", cannot.tooLarge), async () => {
    const { service, meshRoom } = await stage.meeting();
    if (!service.inject) return;
    await meshRoom.task();
    const reply = { type: "reply", id: "ask_1", outcome: "done", data: "x".repeat(TOO_LARGE_CHARACTERS) };
    await service.inject(meshRoom.ring, "device", JSON.stringify(reply));
    const event = await meshRoom.eventOf([...NOT_TAKEN, "frame"]);
    expect(NOT_TAKEN).toContain(event.type);
    if (event.type === "dropped") expect(event.tooLarge ?? false).toBe(cannot.tooLarge === undefined);
    if (event.type === "left" || event.type === "closed") expect(event.delivered).not.toBe("no");
  });

  it.skipIf(cannot.repeat)(titleOf("takes a message that comes twice once", cannot.repeat), async ({ skip }) => {
    const { service, meshRoom, device } = await stage.meeting();
    if (!service.repeat) return skip("the harness has no `repeat`");
    await meshRoom.task();
    await device.events.next(isTask);
    device.room.send({ type: "accepted", id: "ask_1" });
    await meshRoom.event("frame");
    await service.repeat(meshRoom.ring);
    device.room.send({ type: "reply", id: "ask_1", outcome: "done" });
    expect((await meshRoom.event("frame")).envelope).toMatchObject({ type: "reply" });
  });

  it("is for one task", async () => {
    const { service, meshRoom } = await stage.meeting();
    await meshRoom.task();
    await expect(meshRoom.task()).rejects.toThrow("one task");
    // It was handed to the network; how many the service took, it tells over another connection.
    await expect.poll(async () => (await service.tasksTaken?.()) ?? 1).toBe(1);
  });

  it("keeps rooms apart that are open side by side", async () => {
    const both = await stage.world();
    const meetings = await Promise.all(
      ["ask_1", "ask_2", "ask_3"].map(async (ask) => {
        const meshRoom = await both.mesh.open({ ask });
        return { ask, meshRoom, device: await stage.join(both, meshRoom) };
      }),
    );
    for (const { meshRoom } of meetings) await meshRoom.event("joined");
    await Promise.all(meetings.map(({ meshRoom }) => meshRoom.task()));
    for (const { ask, device } of meetings) {
      expect((await device.events.next(isTask)).envelope).toMatchObject({ id: ask });
      device.room.send({ type: "reply", id: ask, outcome: "done" });
    }
    for (const { ask, meshRoom } of meetings) {
      expect((await meshRoom.event("frame")).envelope).toMatchObject({ id: ask });
    }
  });
}
