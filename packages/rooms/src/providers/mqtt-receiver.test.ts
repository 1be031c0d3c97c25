import { createSealer, importRoomKey, newRoomKey, roomTopics } from "@leafmesh/mqtt/wire";
import { describe, expect, it } from "vitest";
import { createRoomReceiver } from "./mqtt-receiver.ts";

const topics = roomTopics("leafmesh/room/r1/d/phone-7");

async function setUp() {
  const key = await importRoomKey(newRoomKey());
  const heard: unknown[] = [];
  const waiters: (() => void)[] = [];
  const note = (what: unknown): void => {
    heard.push(what);
    for (const wake of waiters.splice(0)) wake();
  };
  const receiver = createRoomReceiver(key, topics, {
    presence: (presence) => note(presence),
    envelope: (envelope) => note(envelope),
    dropped: (why) => note(why),
  });
  const up = createSealer(key, topics.up);
  const presence = createSealer(key, topics.presence);
  /** Resolves with what was heard once `count` things were. */
  const heardAll = async (count: number): Promise<readonly unknown[]> => {
    while (heard.length < count) await new Promise<void>((resolve) => waiters.push(resolve));
    return heard;
  };
  return { receiver, up, presence, heardAll };
}

const accepted = JSON.stringify({ type: "accepted", id: "a1" });

describe("what a room hears", () => {
  it("is the device's presence and envelopes, in the order of arrival over both topics", async () => {
    const { receiver, up, presence, heardAll } = await setUp();
    const messages = [
      { topic: topics.presence, payload: await presence.seal('{"type":"joined"}'), retained: false },
      { topic: topics.up, payload: await up.seal(accepted), retained: false },
      { topic: topics.presence, payload: await presence.seal('{"type":"left","reason":"left"}'), retained: false },
    ];
    for (const message of messages) receiver.push(message);
    expect(await heardAll(3)).toEqual([
      { type: "joined" },
      { type: "accepted", id: "a1" },
      { type: "left", reason: "left" },
    ]);
  });

  it("is a presence that the broker has kept, and no envelope that it has", async () => {
    const { receiver, up, presence, heardAll } = await setUp();
    receiver.push({ topic: topics.up, payload: await up.seal(accepted), retained: true });
    receiver.push({ topic: topics.presence, payload: await presence.seal('{"type":"joined"}'), retained: true });
    expect(await heardAll(2)).toEqual(["retained by the broker", { type: "joined" }]);
  });

  it("is everything once: redelivery passes without a word", async () => {
    const { receiver, up, heardAll } = await setUp();
    const payload = await up.seal(accepted);
    for (let copy = 0; copy < 3; copy++) receiver.push({ topic: topics.up, payload, retained: false });
    const progress = JSON.stringify({ type: "progress", id: "a1", pct: 50 });
    receiver.push({ topic: topics.up, payload: await up.seal(progress), retained: false });
    expect(await heardAll(2)).toEqual([
      { type: "accepted", id: "a1" },
      { type: "progress", id: "a1", pct: 50 },
    ]);
  });

  it("is nothing of what this room's device did not send", async () => {
    const { receiver, up, presence, heardAll } = await setUp();
    const foreign = createSealer(await importRoomKey(newRoomKey()), topics.up);
    const drops = [
      { topic: topics.up, payload: new TextEncoder().encode(accepted) },
      { topic: topics.up, payload: await foreign.seal(accepted) },
      { topic: topics.up, payload: await presence.seal(accepted) },
      { topic: topics.up, payload: await up.seal('{"type":"cancel","id":"a1","reason":"x"}') },
      { topic: topics.presence, payload: await presence.seal('{"type":"gone"}') },
      { topic: topics.up, payload: new Uint8Array(65 * 1024) },
    ];
    for (const drop of drops) receiver.push({ ...drop, retained: false });
    expect(await heardAll(6)).toEqual([
      "malformed",
      "forged",
      "forged",
      "not an envelope",
      "not a presence message",
      "too large",
    ]);
  });

  it("is not the empty message by which a retained one is cleared", async () => {
    const { receiver, up, heardAll } = await setUp();
    receiver.push({ topic: topics.presence, payload: new Uint8Array(), retained: false });
    receiver.push({ topic: topics.up, payload: await up.seal(accepted), retained: false });
    expect(await heardAll(1)).toEqual([{ type: "accepted", id: "a1" }]);
  });

  it("is bounded", async () => {
    const { receiver, heardAll } = await setUp();
    const junk = { topic: topics.up, payload: new Uint8Array(40).fill(1), retained: false };
    for (let message = 0; message < 300; message++) receiver.push(junk);
    const heard = await heardAll(300);
    expect(heard.filter((what) => what === "more messages than can be read").length).toBeGreaterThan(30);
  });
});
