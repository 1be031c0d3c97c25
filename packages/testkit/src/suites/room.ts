/** The conformance suite of room providers: everything that the contract promises, as vitest tests. */
import type { RoomErrorKind } from "@leafmesh/rooms/contract";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkCases } from "./room/check-cases.ts";
import { endingCases } from "./room/ending-cases.ts";
import type { RoomServiceUnderTest, RoomSuiteOptions, SuiteDeviceEvent } from "./room/harness.ts";
import { lossCases } from "./room/loss-cases.ts";
import { Mailbox } from "./room/mailbox.ts";
import { patient } from "./room/mesh.ts";
import { createStage, hasty, isClosed, isTask } from "./room/stage.ts";
import { trustCases } from "./room/trust-cases.ts";

const REFUSALS: readonly RoomErrorKind[] = ["bad_credential", "plan_limit", "rate"];

/** `start` is called for each test. Slow tests wait for a provider that takes its time to see a loss. */
export function testRoom(
  name: string,
  start: () => Promise<RoomServiceUnderTest>,
  options: RoomSuiteOptions = {},
): void {
  const { clock = hasty, cannot = {} } = options;
  const stage = createStage(start, clock);
  const { world, join, meeting } = stage;

  describe(`room: ${name}`, { timeout: 30_000 }, () => {
    it("brings the task to the device and its answer back, and sees it go", async () => {
      const { meshRoom, device } = await meeting();
      expect(await meshRoom.task()).toEqual({ status: "handed" });
      const { envelope } = await device.events.next(isTask);
      expect(envelope).toMatchObject({ type: "task", id: "ask_1", action: "battery.read", budget_ms: 60_000 });
      expect(device.room.send({ type: "accepted", id: "ask_1" })).toBe("queued");
      expect(device.room.send({ type: "progress", id: "ask_1", note: "half" })).toBe("queued");
      expect(
        device.room.send({ type: "reply", id: "ask_1", outcome: "done", data: { percent: 71, text: "Grüße 🪴" } }),
      ).toBe("queued");
      expect(await device.room.acked(patient)).toBe(true);
      expect((await meshRoom.event("frame")).envelope).toEqual({ type: "accepted", id: "ask_1" });
      expect((await meshRoom.event("frame")).envelope).toMatchObject({ type: "progress" });
      expect((await meshRoom.event("frame")).envelope).toMatchObject({ data: { percent: 71, text: "Grüße 🪴" } });
      await device.room.leave("done");
      expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "left", delivered: "yes" });
    });

    it("tells the device that its task is over", async () => {
      const { meshRoom, device } = await meeting();
      await meshRoom.task();
      await device.events.next(isTask);
      await meshRoom.room.cancel("ask_1", "nobody waits any more");
      expect(await device.events.next()).toMatchObject({ envelope: { type: "cancel", id: "ask_1" } });
    });

    it("is closed by the mesh, again and again without harm: the device is told, and nothing follows", async () => {
      const { meshRoom, device } = await meeting();
      await meshRoom.room.close("settled");
      await meshRoom.room.close("settled");
      expect(await device.events.next(isClosed)).toMatchObject({ reason: "closed" });
      expect(device.room.send({ type: "accepted", id: "ask_1" })).toBe("ended");
      expect(meshRoom.takeAll()).toEqual([]);
    });

    it.skipIf(cannot.lateJoin !== undefined)("tells a device that comes late that it is over", async () => {
      const both = await world();
      const meshRoom = await both.mesh.open();
      await meshRoom.room.close("nobody came");
      const outcome = await both.service
        .connector()
        .join(meshRoom.ring, { signal: AbortSignal.timeout(8_000) })
        .then(
          async (room) => {
            onTestFinished(() => room.leave("test over"));
            return (await new Mailbox<SuiteDeviceEvent>(room.events).next(isClosed)).reason;
          },
          (error: { readonly kind?: string }) => error.kind,
        );
      expect(["over", "closed"]).toContain(outcome);
    });

    it("says that the person did not allow it", async () => {
      const { service, mesh } = await world();
      const meshRoom = await mesh.open();
      await service.connector().refuse(meshRoom.ring, patient);
      await meshRoom.event("refused");
      expect(meshRoom.takeAll().filter(({ type }) => type === "joined")).toEqual([]);
    });

    it.skipIf(cannot.resume !== undefined)(
      "brings each message once when the device loses its link and comes back",
      async () => {
        const { service, meshRoom, device } = await meeting();
        await meshRoom.task();
        await device.events.next(isTask);
        await service.cut(meshRoom.ring);
        device.room.send({ type: "reply", id: "ask_1", outcome: "done" });
        expect((await meshRoom.event("frame")).envelope).toMatchObject({ type: "reply", outcome: "done" });
        expect(await device.room.acked(patient)).toBe(true);
        expect(meshRoom.takeAll().filter(({ type }) => type === "frame")).toEqual([]);
      },
    );

    it.skipIf(cannot.secondHolder !== undefined)("gives the task to one of two that hold the ring", async () => {
      const { meshRoom, device, ...both } = await meeting();
      const second = await join(both, meshRoom);
      await meshRoom.event("dropped");
      await meshRoom.task();
      await device.events.next(isTask);
      device.room.send({ type: "reply", id: "ask_1", outcome: "done" });
      await meshRoom.event("frame");
      expect(second.events.takeAll()).toEqual([]);
    });

    it("knows the largest task before it is sent, and carries exactly that", async () => {
      const { service, meshRoom, device } = await meeting();
      const empty = { type: "task", id: "ask_1", action: "battery.read", inputs: { text: "" }, budget_ms: 60_000 };
      const room = meshRoom.room.maxTaskBytes - JSON.stringify(empty).length;
      const refused = await meshRoom.task({ inputs: { text: "x".repeat(room + 1) } });
      expect(refused).toMatchObject({ status: "not_handed", error: { kind: "too_big" } });
      expect((await service.tasksTaken?.()) ?? 0).toBe(0);
      expect(await meshRoom.task({ inputs: { text: "x".repeat(room) } })).toEqual({ status: "handed" });
      await device.events.next(isTask);
    });

    it("knows the largest answer before it is sent, and carries exactly that", async () => {
      const { meshRoom, device } = await meeting();
      await meshRoom.task();
      await device.events.next(isTask);
      const empty = { type: "reply", id: "ask_1", outcome: "done", data: "" } as const;
      const room = device.room.maxEnvelopeBytes - JSON.stringify(empty).length;
      expect(device.room.send({ ...empty, data: "x".repeat(room + 1) })).toBe("too_large");
      expect(device.room.send({ ...empty, data: "x".repeat(room) })).toBe("queued");
      expect((await meshRoom.event("frame")).envelope).toMatchObject({ type: "reply" });
    });

    it.each(REFUSALS)(
      "is not opened when the provider refuses: %s; nothing is left, and it works afterwards",
      async (kind) => {
        const both = await world();
        const allow = both.service.refuse("open", kind);
        if (!allow) return;
        await expect(both.mesh.open()).rejects.toMatchObject({ name: "RoomError", kind });
        allow();
        const meshRoom = await both.mesh.open();
        await join(both, meshRoom);
        await meshRoom.event("joined");
      },
    );

    it.each(REFUSALS)("knows that a task did not leave when the provider refuses: %s", async (kind) => {
      const { service, meshRoom } = await meeting();
      if (!service.refuse("send", kind)) return;
      expect(await meshRoom.task()).toMatchObject({ status: "not_handed", error: { kind } });
    });

    it("does not know when the provider fails: the task may have left", async () => {
      const { service, meshRoom } = await meeting();
      if (!service.refuse("send", "trouble")) return;
      expect(await meshRoom.task()).toEqual({ status: "handed" });
    });

    it("gives up opening when there is no time left", async () => {
      const { mesh } = await world();
      await expect(mesh.open({}, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: "RoomError" });
    });

    it("sends nothing when there is no time left", async () => {
      const { service, meshRoom } = await meeting();
      expect(await meshRoom.task({}, AbortSignal.abort())).toMatchObject({ status: "not_handed" });
      expect((await service.tasksTaken?.()) ?? 0).toBe(0);
    });

    it("shows no secret to the device, nor in its name", async () => {
      const { service, mesh } = await world();
      const { ring, room } = await mesh.open();
      for (const secret of service.secrets) {
        expect(JSON.stringify(ring)).not.toContain(secret);
        expect(room.label).not.toContain(secret);
      }
    });

    trustCases(stage, options);
    lossCases(stage, options);
    endingCases(stage, options);
    checkCases(stage, options);
  });
}
