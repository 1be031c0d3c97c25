import type { Ring } from "@leafmesh/protocol";
import { pusherRoom } from "@leafmesh/rooms";
import {
  PUSHER_REFUSALS,
  type PusherClientEvent,
  type PusherDoubleOptions,
  startPusherDouble,
} from "@leafmesh/testkit/pusher";
import { Mailbox, patient, type RoomServiceUnderTest, startRoomMesh, testRoom } from "@leafmesh/testkit/suites";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import Pusher from "pusher-js";
import { describe, expect, it, onTestFinished } from "vitest";
import { startCallbackServer } from "../../testing/conformance/callback-server.ts";
import { shiftedClock } from "../../testing/conformance/shifted-clock.ts";
import type { DeviceRoomEvent, JoinError } from "../connector.ts";
import { pusherConnector } from "./pusher.ts";

const CONNECT = {
  bad_credential: { code: 4001, message: "App key not in this cluster" },
  plan_limit: { code: 4004, message: "Application is over connection quota" },
} as const;
const SEND = {
  bad_credential: PUSHER_REFUSALS.badSignature,
  plan_limit: PUSHER_REFUSALS.quota,
  rate: PUSHER_REFUSALS.rate,
  trouble: PUSHER_REFUSALS.trouble,
} as const;

const LOSS_SEEN_MS = 150;

const ahead = shiftedClock();

async function start(): Promise<RoomServiceUnderTest> {
  const double = await startPusherDouble();
  const between = await startTcpProxy(Number(double.host.split(":")[1]));
  const callbacks = await startCallbackServer();
  const { app } = double;
  const record = { app_id: app.appId, key: app.key, secret: app.secret, cluster: `127.0.0.1:${between.port}` };
  const deviceIn = (channel: string): string =>
    double.users(channel).find((id) => id !== "mesh") ?? lost.get(channel) ?? "";
  const lost = new Map<string, string>();
  const event = (channel: string, userId: string, data: unknown): PusherClientEvent => ({
    ...{ channel, name: "client-up", userId, data },
  });
  return {
    definition: callbacks.around(pusherRoom),
    record,
    secrets: [app.secret],
    connector: () => pusherConnector({ pusher: Pusher }),
    cut({ join }, how) {
      const userId = deviceIn(join.room);
      lost.set(join.room, userId);
      // As ever with Pusher, a device is back long before its loss is seen.
      double.cut(userId, { ...how, lossSeenMs: how?.forGood ? LOSS_SEEN_MS : 60_000 });
    },
    restore: ({ join }) => double.restore(deviceIn(join.room)),
    inject: ({ join }, from, text) =>
      double.inject(
        event(join.room, from === "device" ? deviceIn(join.room) : "intruder", { number: 99, envelope: parsed(text) }),
      ),
    async repeat({ join }) {
      const last = double.clientEvents.findLast(({ channel }) => channel === join.room);
      if (last) double.inject(last);
    },
    expire: () => ahead.forward(600_000),
    end: () => double.disable(),
    stall() {
      between.set({ stallUp: true, stallDown: true });
      return () => between.set({ stallUp: false, stallDown: false });
    },
    refuse(phase, how) {
      if (phase === "open") {
        if (!(how in CONNECT)) return undefined;
        double.refuseConnections(CONNECT[how as keyof typeof CONNECT]);
        return () => double.refuseConnections(undefined);
      }
      if (!(how in SEND)) return undefined;
      double.refuseEvents(SEND[how as keyof typeof SEND]);
      return () => double.refuseEvents(undefined);
    },
    refuseCheck(how) {
      if (how === "failing") return { ...record, secret: "another-secret" };
      between.block();
      return record;
    },
    tasksTaken: () => double.triggered.filter(({ data }) => data.includes('"type":"task"')).length,
    async close() {
      await callbacks.close();
      await between.stop();
      await double.close();
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

testRoom("pusher", start, {
  clock: { ...ahead.clock, schedule: (afterMs, run) => ahead.clock.schedule(afterMs / 50, run) },
  holdsTask: true,
  cannot: { secondHolder: "the mesh signs for one device a room" },
});

describe("a device in a Pusher room", () => {
  const open = async (options: PusherDoubleOptions = {}) => {
    const double = await startPusherDouble(options);
    const callbacks = await startCallbackServer();
    const { app, host } = double;
    const record = { app_id: app.appId, key: app.key, secret: app.secret, cluster: host };
    const mesh = startRoomMesh(callbacks.around(pusherRoom), record);
    onTestFinished(async () => {
      await mesh.close();
      await callbacks.close();
      await double.close();
    });
    return { double, mesh, meshRoom: await mesh.open() };
  };
  const join = async (ring: Ring, signal: AbortSignal = patient) => {
    const room = await pusherConnector({ pusher: Pusher }).join(ring, { signal });
    onTestFinished(() => room.leave("test over"));
    return { room, events: new Mailbox<DeviceRoomEvent>(room.events) };
  };
  const joinErrorOf = (attempt: Promise<unknown>): Promise<JoinError> =>
    attempt.then(
      () => {
        throw new Error("the join worked");
      },
      (error: JoinError) => error,
    );

  it("is the only one that the mesh signs for", async () => {
    const { double, meshRoom } = await open();
    await join(meshRoom.ring);
    await meshRoom.event("joined");
    expect(await joinErrorOf(join(meshRoom.ring))).toMatchObject({ kind: "over" });
    expect(double.users(meshRoom.ring.join.room)).toHaveLength(2);
  });

  it("whose loss Pusher has seen is away, and back when it is", async () => {
    const { double, meshRoom } = await open({ lossSeenMs: 20 });
    const { events } = await join(meshRoom.ring);
    await meshRoom.event("joined");
    const userId = double.users(meshRoom.ring.join.room).find((id) => id !== "mesh") ?? "";
    double.cut(userId);
    expect(await meshRoom.event("away")).toMatchObject({ graceMs: 10_000 });
    expect(await events.next()).toEqual({ type: "away" });
    await meshRoom.event("back");
    expect(await events.next()).toEqual({ type: "back" });
  });

  it("is told in one sentence that client events are off, and so is the mesh", async () => {
    const { mesh, meshRoom } = await open({ clientEvents: false });
    const { error, delivered } = await meshRoom.event("closed");
    expect([error.kind, error.message, delivered]).toEqual([
      "bad_credential",
      expect.stringContaining("turn on Enable client events in your Pusher app"),
      "no",
    ]);
    const device = await joinErrorOf(join(meshRoom.ring));
    expect(device).toMatchObject({ kind: "unsupported", message: expect.stringContaining("client events are off") });
    await mesh.close();
  });

  it("sends more than Pusher takes in a second without losing any", async () => {
    const { double, meshRoom } = await open();
    const { room } = await join(meshRoom.ring);
    for (let count = 0; count < 15; count++) room.send({ type: "progress", id: "ask_1", note: String(count) });
    room.send({ type: "reply", id: "ask_1", outcome: "done" });
    const notes: unknown[] = [];
    for (let count = 0; count < 16; count++) notes.push((await meshRoom.event("frame")).envelope);
    expect(notes.map((note) => (note as { note?: string }).note)).toEqual([
      ...Array.from({ length: 15 }, (_, index) => String(index)),
      undefined,
    ]);
    expect(await room.acked(patient)).toBe(true);
    expect(double.clientEvents.filter(({ name }) => name === "client-up")).toHaveLength(17);
  });

  it("gives up when its time is over before Pusher or the mesh answered", async () => {
    const { double, meshRoom } = await open();
    const { ring } = meshRoom;
    const nobody = { ...ring, join: { ...ring.join, params: { ...ring.join.params, vouch: "http://127.0.0.1:1/x" } } };
    expect(await joinErrorOf(join(nobody, AbortSignal.timeout(300)))).toMatchObject({ kind: "unreachable" });
    double.refuseConnections({ code: 4200, message: "try again" });
    expect(await joinErrorOf(join(ring, AbortSignal.timeout(300)))).toMatchObject({ kind: "unreachable" });
    double.refuseConnections({ code: 4001, message: "App key not in this cluster" });
    expect(await joinErrorOf(join(ring))).toMatchObject({ kind: "unsupported" });
  });

  it("does not go to an address that is none", async () => {
    const { meshRoom } = await open();
    const { ring } = meshRoom;
    for (const changed of [
      { ...ring.join, url: "https://evil.example/x?" },
      { ...ring.join, token: undefined },
      { ...ring.join, params: {} },
      { ...ring.join, params: { ...ring.join.params, vouch: "http://mesh.example.com/x" } },
      { ...ring.join, url: undefined },
      { ...ring.join, room: "public-channel" },
    ]) {
      expect(await joinErrorOf(join({ ...ring, join: changed }))).toMatchObject({ kind: "unsupported" });
    }
  });
});
