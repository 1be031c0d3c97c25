import { ROOM_CLOSE } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import { accepted, cancel, closeOf, createTestRoom, progress, reply, sentTo, task } from "../../testing/test-room.ts";
import { statusOf } from "./state.ts";

const MESH = 1;
const DEVICE = 2;

function joined(limits = {}) {
  const room = createTestRoom(limits);
  room.join("mesh", MESH);
  room.join("device", DEVICE);
  return room;
}

describe("joining", () => {
  it("welcomes each seat and tells each of the other", () => {
    const room = createTestRoom();
    expect(sentTo(MESH, room.join("mesh", MESH))).toEqual([
      expect.objectContaining({
        type: "welcome",
        v: 1,
        room: "room_1",
        seat: "mesh",
        recv: 0,
        peer: "absent",
        resume_key: "key-1",
        limits: expect.objectContaining({ frame: 65_536, idle_s: 15, grace_s: 15 }),
      }),
    ]);
    const effects = room.step({
      type: "join",
      seat: "device",
      link: DEVICE,
      jti: "device-token",
      resume: { key: "key-2", hash: "hash of key-2" },
      capabilities: [{ name: "battery.read" }],
    });
    expect(sentTo(MESH, effects)).toEqual([
      { type: "peer", seq: 1, state: "joined", capabilities: [{ name: "battery.read" }] },
    ]);
    expect(sentTo(DEVICE, effects)).toEqual([
      expect.objectContaining({ type: "welcome", seat: "device", peer: "joined" }),
      { type: "peer", seq: 1, state: "joined" },
    ]);
  });

  it("holds a task for a device that comes later", () => {
    const room = createTestRoom();
    room.join("mesh", MESH);
    expect(sentTo(MESH, room.frame(MESH, task(1)))).toEqual([{ type: "ack", seq: 1 }]);
    expect(statusOf(room.state).task).toEqual({ handed: false, acked: false, replied: false });
    const frames = sentTo(DEVICE, room.join("device", DEVICE));
    expect(frames.map((frame) => frame.type)).toEqual(["welcome", "peer", "task"]);
    expect(frames[2]).toEqual(task(2));
    expect(statusOf(room.state).task).toEqual({ handed: true, acked: false, replied: false });
  });

  it("refuses a used token and counts the attempt, an unknown and an expired one", () => {
    const room = joined();
    expect(closeOf(3, room.join("device", 3))).toBe(ROOM_CLOSE.seatTaken);
    expect(statusOf(room.state).device.refused_joins).toBe(1);
    const other = room.step({
      type: "join",
      seat: "device",
      link: 4,
      jti: "another",
      resume: { key: "k", hash: "h" },
    });
    expect(closeOf(4, other)).toBe(ROOM_CLOSE.tokenRefused);

    const late = createTestRoom();
    late.advance(60_000);
    expect(closeOf(DEVICE, late.join("device", DEVICE))).toBe(ROOM_CLOSE.tokenRefused);
  });

  it("lets a device refuse: token used, no seat, no task", () => {
    const room = createTestRoom();
    room.join("mesh", MESH);
    room.frame(MESH, task(1));
    const effects = room.step({ type: "refuse", seat: "device", link: DEVICE, jti: "device-token" });
    expect(sentTo(MESH, effects)).toEqual([{ type: "peer", seq: 1, state: "refused", reason: "not_allowed" }]);
    expect(sentTo(DEVICE, effects)).toEqual([]);
    expect(closeOf(DEVICE, effects)).toBe(ROOM_CLOSE.finished);
    expect(statusOf(room.state)).toEqual({
      state: "open",
      device: { reason: "not_allowed" },
      task: { handed: false, acked: false, replied: false },
    });
    expect(closeOf(3, room.join("device", 3))).toBe(ROOM_CLOSE.seatTaken);
  });

  it("does not let a mesh refuse", () => {
    const room = createTestRoom();
    const effects = room.step({ type: "refuse", seat: "mesh", link: MESH, jti: "mesh-token" });
    expect(closeOf(MESH, effects)).toBe(ROOM_CLOSE.badFrame);
    expect(sentTo(MESH, room.join("mesh", MESH))[0]).toMatchObject({ type: "welcome" });
  });

  it("voids the old device token when a new one is issued, and issues none once the seat was taken", () => {
    const room = createTestRoom();
    room.step({ type: "issue", seat: "device", jti: "second", expiresAtMs: 50_000 });
    expect(closeOf(DEVICE, room.join("device", DEVICE))).toBe(ROOM_CLOSE.tokenRefused);
    const resume = { key: "k", hash: "h" };
    const effects = room.step({ type: "join", seat: "device", link: 3, jti: "second", resume });
    expect(sentTo(3, effects)[0]).toMatchObject({ type: "welcome" });
    room.step({ type: "issue", seat: "device", jti: "third", expiresAtMs: 50_000 });
    expect(closeOf(4, room.step({ type: "join", seat: "device", link: 4, jti: "third", resume }))).toBe(4401);
  });
});

describe("relaying", () => {
  it("passes frames on with the receiver's number and unknown fields, and acks the sender", () => {
    const room = joined();
    const effects = room.frame(MESH, { ...task(1), upload: { url: "u" }, "x-trace": "abc" });
    expect(effects.map((effect) => effect.type === "send" && effect.link)).toEqual([DEVICE, MESH]);
    expect(sentTo(DEVICE, effects)).toEqual([{ ...task(2), upload: { url: "u" }, "x-trace": "abc" }]);
    expect(sentTo(MESH, effects)).toEqual([{ type: "ack", seq: 1 }]);

    const back = [accepted(1), progress(2), reply(3)].flatMap((frame) => sentTo(MESH, room.frame(DEVICE, frame)));
    expect(back).toEqual([accepted(2), progress(3), reply(4)]);
    expect(statusOf(room.state).task).toEqual({ handed: true, acked: true, replied: true });
  });

  it("acks a repeat and does not relay it", () => {
    const room = joined();
    room.frame(MESH, task(1));
    const effects = room.frame(MESH, task(1));
    expect(effects).toEqual([{ type: "send", link: MESH, frame: { type: "ack", seq: 1 } }]);
  });

  it("ends the seat of whoever leaves a gap or sends the other side's frames", () => {
    const gap = joined();
    const effects = gap.frame(MESH, task(2));
    expect(closeOf(MESH, effects)).toBe(ROOM_CLOSE.badFrame);
    expect(sentTo(DEVICE, effects)).toEqual([
      expect.objectContaining({ type: "peer", state: "left", reason: "protocol" }),
    ]);

    const wrong = joined();
    expect(closeOf(MESH, wrong.frame(MESH, reply(1)))).toBe(ROOM_CLOSE.wrongSeat);
    expect(closeOf(DEVICE, wrong.frame(DEVICE, task(1)))).toBe(ROOM_CLOSE.wrongSeat);
    expect(statusOf(wrong.state).state).toBe("open");
    expect(statusOf(wrong.state).device.reason).toBe("protocol");
  });

  it("ends the seat of whoever acknowledges what was never sent", () => {
    const room = joined();
    expect(closeOf(DEVICE, room.frame(DEVICE, { type: "ack", seq: 2 }))).toBe(ROOM_CLOSE.badFrame);
  });

  it.each([
    ["a second task", () => [task(1), task(2, "ask_2")], MESH, "second_task"],
    ["a cancel before the task", () => [cancel(1)], MESH, "unknown_task"],
  ])("answers %s with an error that names the frame, and goes on", (_name, frames, link, code) => {
    const room = joined();
    const answers = frames().flatMap((frame) => sentTo(link, room.frame(link, frame)));
    const last = frames().length;
    expect(answers.slice(-2)).toEqual([
      { type: "error", code, message: expect.any(String), temporary: false, ref_seq: last },
      { type: "ack", seq: last },
    ]);
    expect(sentTo(DEVICE, room.effects).filter((frame) => frame.type === "task")).toHaveLength(last - 1);
  });

  it("takes one reply, and nothing for another task", () => {
    const room = joined();
    room.frame(MESH, task(1));
    expect(sentTo(DEVICE, room.frame(DEVICE, { ...reply(1), id: "ask_9" }))[0]).toMatchObject({ code: "unknown_task" });
    room.frame(DEVICE, reply(2));
    expect(sentTo(DEVICE, room.frame(DEVICE, reply(3)))[0]).toMatchObject({ code: "already_replied" });
    expect(sentTo(MESH, room.effects).filter((frame) => frame.type === "reply")).toHaveLength(1);
    expect(sentTo(DEVICE, room.frame(MESH, cancel(2)))).toEqual([cancel(3)]);
  });

  it("refuses inputs over the announced size, and only those", () => {
    const room = joined();
    const inputs = { text: "ü".repeat(16_378) };
    const wire = (frame: object): number => Buffer.byteLength(JSON.stringify(frame));
    expect(wire(inputs)).toBe(32_767);
    const large = { ...task(1), inputs: { text: `${inputs.text}aa` } };
    expect(sentTo(MESH, room.frame(MESH, large, wire(large)))[0]).toMatchObject({ code: "too_large", ref_seq: 1 });
    const fits = { ...task(2), inputs: { text: `${inputs.text}a` } };
    expect(sentTo(DEVICE, room.frame(MESH, fits, wire(fits)))).toEqual([{ ...fits, seq: 2 }]);
  });
});

describe("a lost link", () => {
  it("is away for the grace, and back with everything the client has not seen", () => {
    const room = joined();
    room.frame(MESH, task(1));
    const away = room.step({ type: "dropped", link: DEVICE });
    expect(sentTo(MESH, away)).toEqual([{ type: "peer", seq: 2, state: "away" }]);
    expect(statusOf(room.state).state).toBe("away");
    room.advance(14_999);
    room.frame(MESH, cancel(2));
    const back = room.resume(3, "key-2", 1);
    expect(sentTo(3, back)).toEqual([
      expect.objectContaining({ type: "welcome", recv: 0, resume_key: "key-3" }),
      task(2),
      cancel(3),
    ]);
    expect(sentTo(MESH, back)).toEqual([{ type: "peer", seq: 3, state: "back" }]);
  });

  it("is left once the grace is over, with how far the frames got", () => {
    const handed = joined();
    handed.frame(MESH, task(1));
    handed.step({ type: "dropped", link: DEVICE });
    expect(sentTo(MESH, handed.advance(15_000))).toEqual([
      { type: "peer", seq: 3, state: "left", reason: "lost", handed_seq: 1, acked_seq: 0 },
    ]);
    expect(closeOf(3, handed.resume(3, "key-2", 2))).toBe(ROOM_CLOSE.seatTaken);
    expect(statusOf(handed.state)).toEqual({
      state: "open",
      device: { joined_at: 1_800_000_001, left_at: 1_800_000_016, reason: "lost" },
      task: { handed: true, acked: false, replied: false },
    });

    const acked = joined();
    acked.frame(MESH, task(1));
    acked.frame(DEVICE, { type: "ack", seq: 2 });
    acked.step({ type: "dropped", link: DEVICE });
    expect(sentTo(MESH, acked.advance(15_000))[0]).toMatchObject({ handed_seq: 1, acked_seq: 1 });

    const neither = joined();
    neither.step({ type: "dropped", link: DEVICE });
    neither.frame(MESH, task(1));
    expect(sentTo(MESH, neither.advance(15_000))[0]).toMatchObject({ handed_seq: 0, acked_seq: 0 });
    neither.frame(MESH, cancel(2));
    expect(neither.state.seats.device.outbox.frames).toEqual([]);
  });

  it("cannot be resumed with a key that was used, nor with a cursor that does not fit", () => {
    const room = joined();
    room.frame(MESH, task(1));
    room.frame(DEVICE, { type: "ack", seq: 2 });
    room.step({ type: "dropped", link: DEVICE });
    expect(closeOf(3, room.resume(3, "key-2", 3))).toBe(ROOM_CLOSE.badFrame);
    expect(closeOf(4, room.resume(4, "key-2", 1))).toBe(ROOM_CLOSE.seatTaken);
    expect(sentTo(5, room.resume(5, "key-2", 2))[0]).toMatchObject({ type: "welcome", seat: "device" });
    expect(closeOf(6, room.resume(6, "key-2", 2))).toBe(ROOM_CLOSE.seatTaken);
  });

  it("gives way when the same client resumes from elsewhere", () => {
    const room = joined();
    const effects = room.resume(3, "key-2", 1);
    expect(sentTo(DEVICE, effects)).toEqual([{ type: "closing", reason: "replaced" }]);
    expect(closeOf(DEVICE, effects)).toBe(ROOM_CLOSE.replaced);
    expect(sentTo(MESH, effects)).toEqual([]);
    room.frame(MESH, task(1));
    expect(sentTo(3, room.effects).at(-1)).toEqual(task(2));
    expect(room.step({ type: "dropped", link: DEVICE })).toEqual([]);
  });

  it("is told at once, without a grace, when the client says goodbye", () => {
    const room = joined();
    const effects = room.frame(DEVICE, { type: "leave", reason: "closed by the user" });
    expect(closeOf(DEVICE, effects)).toBe(ROOM_CLOSE.finished);
    expect(sentTo(MESH, effects)).toEqual([
      { type: "peer", seq: 2, state: "left", reason: "left", handed_seq: 0, acked_seq: 0 },
    ]);
  });

  it("does not pile up presence that nobody sees", () => {
    const room = joined();
    room.step({ type: "dropped", link: MESH });
    for (let link = 10; link < 60; link++) {
      room.step({ type: "dropped", link: room.state.seats.device.link ?? 0 });
      room.resume(link, `key-${link === 10 ? DEVICE : link - 1}`, 2);
    }
    expect(room.state.seats.mesh.outbox.frames.length).toBeLessThanOrEqual(2);
    room.step({ type: "dropped", link: 59 });
    room.advance(14_000);
    const frames = sentTo(99, room.resume(99, "key-1", 1));
    expect(frames.map((frame) => (frame.type === "peer" ? frame.state : frame.type))).toEqual(["welcome", "away"]);
  });
});

describe("a mesh that comes back", () => {
  it("gets the reply that was finished while it was away", () => {
    const room = joined();
    room.frame(MESH, task(1));
    room.frame(DEVICE, accepted(1));
    room.step({ type: "dropped", link: MESH });
    room.frame(DEVICE, reply(2));
    expect(sentTo(3, room.resume(3, "key-1", 2))).toEqual([
      expect.objectContaining({ type: "welcome", recv: 1 }),
      reply(3),
    ]);
  });

  it("takes its seat with a new token after it lost everything, and counts from 1 again", () => {
    const room = joined();
    room.frame(MESH, task(1));
    room.frame(MESH, { type: "ack", seq: 1 });
    room.step({ type: "dropped", link: MESH });
    room.frame(DEVICE, accepted(1));
    room.advance(20_000);
    room.frame(DEVICE, reply(2));
    room.frame(DEVICE, { type: "leave" });
    room.step({ type: "issue", seat: "mesh", jti: "again", expiresAtMs: 120_000 });
    const resume = { key: "k", hash: "h" };
    const frames = sentTo(3, room.step({ type: "join", seat: "mesh", link: 3, jti: "again", resume }));
    expect(frames).toEqual([
      expect.objectContaining({ type: "welcome", recv: 1, peer: "left" }),
      accepted(1),
      reply(2),
      expect.objectContaining({ type: "peer", seq: 3, state: "left", reason: "left", handed_seq: 1 }),
    ]);
    expect(closeOf(4, room.step({ type: "join", seat: "mesh", link: 4, jti: "mesh-token", resume }))).toBe(4401);
  });

  it("voids whoever sits in the mesh's seat", () => {
    const room = joined();
    const effects = room.step({ type: "issue", seat: "mesh", jti: "again", expiresAtMs: 120_000 });
    expect(sentTo(MESH, effects)).toEqual([{ type: "closing", reason: "replaced" }]);
    expect(closeOf(MESH, effects)).toBe(ROOM_CLOSE.replaced);
    expect(sentTo(DEVICE, effects)).toEqual([{ type: "peer", seq: 2, state: "away" }]);
    expect(closeOf(3, room.resume(3, "key-1", 0))).toBe(ROOM_CLOSE.seatTaken);
  });
});

describe("back-pressure", () => {
  it("stops reading from the sender while the receiver's outbox is full", () => {
    const room = joined({ buffer_frames: 3 });
    room.frame(MESH, task(1));
    room.frame(MESH, { type: "ack", seq: 1 });
    room.frame(DEVICE, accepted(1));
    room.frame(DEVICE, progress(2));
    expect(room.frame(DEVICE, progress(3))).toContainEqual({ type: "pause", link: DEVICE });
    expect(room.frame(MESH, { type: "ack", seq: 3 })).toContainEqual({ type: "unpause", link: DEVICE });
  });

  it("counts bytes as well as frames", () => {
    const room = joined({ buffer_bytes: 1000 });
    room.frame(MESH, task(1));
    expect(room.frame(DEVICE, accepted(1), 400).map((effect) => effect.type)).not.toContain("pause");
    expect(room.frame(DEVICE, progress(2), 600)).toContainEqual({ type: "pause", link: DEVICE });
  });

  it("closes a receiver that does not drain, which may come back", () => {
    const room = joined({ buffer_frames: 2 });
    room.frame(MESH, task(1));
    room.frame(MESH, { type: "ack", seq: 1 });
    room.frame(DEVICE, { type: "ack", seq: 2 });
    room.frame(DEVICE, accepted(1));
    room.frame(DEVICE, progress(2));
    expect(room.advance(9_999)).toEqual([]);
    room.frame(MESH, { type: "ack", seq: 2 });
    room.frame(DEVICE, progress(3));
    expect(room.advance(9_999)).toEqual([]);
    const effects = room.advance(1);
    expect(closeOf(MESH, effects)).toBe(ROOM_CLOSE.tooSlow);
    expect(sentTo(DEVICE, effects)).toEqual([expect.objectContaining({ type: "peer", state: "away" })]);
    const back = room.resume(3, "key-1", 3);
    expect(sentTo(3, back)).toEqual([expect.objectContaining({ type: "welcome" }), progress(4)]);
    expect(back).toContainEqual({ type: "unpause", link: DEVICE });
  });

  it("stops a sender that comes back while the receiver is still full", () => {
    const room = joined({ buffer_frames: 2 });
    room.frame(MESH, task(1));
    room.step({ type: "dropped", link: MESH });
    room.frame(DEVICE, accepted(1));
    room.frame(DEVICE, progress(2));
    room.step({ type: "dropped", link: DEVICE });
    expect(room.resume(3, "key-2", 2)).toContainEqual({ type: "pause", link: 3 });
  });
});

describe("the end", () => {
  it("tells the mesh how far it got, then both that the room is closed", () => {
    const room = joined();
    room.frame(MESH, task(1));
    const effects = room.step({ type: "end", reason: "closed" });
    expect(sentTo(MESH, effects)).toEqual([
      { type: "peer", seq: 2, state: "left", reason: "closed", handed_seq: 1, acked_seq: 0 },
      { type: "closing", reason: "closed" },
    ]);
    expect(sentTo(DEVICE, effects)).toEqual([{ type: "closing", reason: "closed" }]);
    expect([closeOf(MESH, effects), closeOf(DEVICE, effects)]).toEqual([4000, 4000]);
    expect(effects.at(-1)).toEqual({ type: "ended" });
    expect(statusOf(room.state)).toMatchObject({ state: "closed", task: { handed: true } });
  });

  it.each([
    ["expired", 4010],
    ["shutdown", 4503],
  ] as const)("says %s with its own code", (reason, code) => {
    const room = joined();
    const effects = reason === "expired" ? room.advance(120_000) : room.step({ type: "end", reason });
    expect(sentTo(DEVICE, effects)).toEqual([{ type: "closing", reason }]);
    expect([closeOf(MESH, effects), closeOf(DEVICE, effects)]).toEqual([code, code]);
  });

  it("is final: nobody comes in, nothing is said", () => {
    const room = joined();
    room.step({ type: "end", reason: "closed" });
    expect(room.frame(MESH, task(1))).toEqual([]);
    expect(room.step({ type: "end", reason: "closed" })).toEqual([]);
    expect(closeOf(3, room.resume(3, "key-2", 1))).toBe(ROOM_CLOSE.noSuchRoom);
    expect(closeOf(4, room.join("device", 4))).toBe(ROOM_CLOSE.tokenRefused);
    expect(room.advance(200_000)).toEqual([]);
  });

  it("comes before whatever else arrives at the moment of a deadline", () => {
    const room = joined();
    room.advance(119_999);
    room.frame(MESH, task(1));
    const effects = room.advance(1);
    expect(closeOf(MESH, effects)).toBe(4010);
  });
});
