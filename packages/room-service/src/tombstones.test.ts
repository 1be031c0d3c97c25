import type { RoomStatus } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it } from "vitest";
import { Tombstones } from "./tombstones.ts";

const status: RoomStatus = { state: "closed", device: {}, task: { handed: true, acked: true, replied: false } };

it("remembers closed rooms for their owner, for their time, up to the bound", async () => {
  const clock = createFakeClock();
  const stones = new Tombstones(clock, { tombstoneMs: 600_000, tombstones: 3 });
  stones.add("room_1", "key_a", status);
  expect(stones.find("room_1", "key_a")).toEqual(status);
  expect(stones.find("room_1", "key_b")).toBeUndefined();

  await clock.advance(599_999);
  stones.add("room_2", "key_a", status);
  expect(stones.find("room_1", "key_a")).toEqual(status);
  await clock.advance(1);
  expect(stones.find("room_1", "key_a")).toBeUndefined();
  expect(stones.find("room_2", "key_a")).toEqual(status);

  for (let room = 3; room < 100; room++) stones.add(`room_${room}`, "key_a", status);
  expect(stones.size).toBe(3);
  expect(stones.find("room_99", "key_a")).toEqual(status);
});
