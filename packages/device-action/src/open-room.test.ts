import { silentLogger } from "@leafmesh/protocol";
import { type OpenRoom, RoomError, type RoomErrorKind } from "@leafmesh/rooms/contract";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { ScriptedRooms } from "@leafmesh/testkit/ask";
import { describe, expect, it } from "vitest";
import { openRoom } from "./open-room.ts";

const REQUEST: OpenRoom = {
  askId: "ask_1",
  deviceId: "phone-7",
  approval: "ask",
  joinWithinMs: 60_000,
  lifetimeMs: 150_000,
};

function opening(clock: FakeClock, rooms: ScriptedRooms, leftMs = 60_000, signal = new AbortController().signal) {
  return openRoom({
    provider: rooms,
    request: () => REQUEST,
    leftMs: () => leftMs,
    signal,
    clock,
    logger: silentLogger,
  });
}

function failing(...kinds: readonly (RoomErrorKind | undefined)[]): ScriptedRooms {
  const rooms = new ScriptedRooms();
  rooms.onOpen = (_request, before) => {
    const kind = kinds[before];
    if (kind) throw new RoomError(kind, `no: ${kind}`, kind === "rate" ? { retryAfterMs: 2_000 } : {});
  };
  return rooms;
}

describe("opening a room", () => {
  it.each(["unavailable", "rate"] as const)("tries once more after %s", async (kind) => {
    const clock = createFakeClock();
    const waiting = opening(clock, failing(kind));
    await clock.advance(2_000);
    await expect(waiting).resolves.toMatchObject({ label: "room-ask_1" });
    expect(clock.pendingTimers).toBe(0);
  });

  it("waits as long as the service asks for", async () => {
    const clock = createFakeClock();
    const rooms = failing("rate");
    const waiting = opening(clock, rooms);
    await clock.advance(1_999);
    expect(rooms.opened).toHaveLength(0);
    await clock.advance(1);
    await waiting;
  });

  it.each(["bad_credential", "plan_limit", "too_big", "mismatch"] as const)(
    "does not try again after %s",
    async (kind) => {
      const clock = createFakeClock();
      const rooms = failing(kind);
      await expect(opening(clock, rooms)).rejects.toMatchObject({ kind });
      expect(rooms.opened).toHaveLength(0);
    },
  );

  it("fails after the second time, or when the pause would take longer than there is time", async () => {
    const clock = createFakeClock();
    const twice = expect(opening(clock, failing("unavailable", "unavailable"))).rejects.toMatchObject({
      kind: "unavailable",
    });
    await clock.advance(1_000);
    await twice;
    await expect(opening(clock, failing("rate"), 1_500)).rejects.toMatchObject({ kind: "rate" });
  });

  it("takes a service that does not answer for one that is not there, and closes a room that comes late", async () => {
    const clock = createFakeClock();
    const rooms = new ScriptedRooms();
    const slow = Promise.withResolvers<void>();
    rooms.onOpen = () => slow.promise;
    const failed = expect(opening(clock, rooms)).rejects.toMatchObject({ name: "RoomError", kind: "unavailable" });
    await clock.advance(25_000);
    await failed;
    slow.resolve();
    await clock.advance(0);
    expect(rooms.opened).toHaveLength(2);
    expect(rooms.opened.map(({ timesClosed }) => timesClosed)).toEqual([1, 1]);
  });

  it("calls an adapter that breaks its contract a mismatch", async () => {
    const rooms = new ScriptedRooms();
    rooms.onOpen = () => {
      throw new TypeError("undefined is not a function");
    };
    await expect(opening(createFakeClock(), rooms)).rejects.toMatchObject({ name: "RoomError", kind: "mismatch" });
  });

  it("ends at once when the ask is over", async () => {
    const clock = createFakeClock();
    const rooms = new ScriptedRooms();
    rooms.onOpen = () => new Promise<never>(() => {});
    const controller = new AbortController();
    const waiting = opening(clock, rooms, 60_000, controller.signal);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ why: "aborted" });
    expect(clock.pendingTimers).toBe(0);
  });
});
