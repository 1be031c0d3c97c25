import { type Clock, systemClock } from "@leafmesh/protocol";
import { ablyRoom } from "@leafmesh/rooms";
import { ABLY_ERRORS, type AblyDouble, type AblyDoubleOptions, startAblyDouble } from "@leafmesh/testkit/ably";
import * as ably from "ably";
import { describe, expect, it, onTestFinished } from "vitest";
import { Mailbox } from "../../testing/mailbox.ts";
import { type MeshRoom, patient, type RoomMesh, startRoomMesh } from "../../testing/room-mesh.ts";
import type { DeviceRoom, DeviceRoomEvent, JoinError } from "../connector.ts";
import { ablyConnector } from "./ably.ts";

/** Waits are a fiftieth. */
const hasty: Clock = { ...systemClock, schedule: (afterMs, run) => systemClock.schedule(afterMs / 50, run) };

async function world(options: AblyDoubleOptions = {}): Promise<{ double: AblyDouble; mesh: RoomMesh }> {
  const double = await startAblyDouble({ remainPresentMs: 100, ...options });
  const mesh = startRoomMesh(ablyRoom, { api_key: double.key, endpoint: double.endpoint }, hasty);
  onTestFinished(async () => {
    await mesh.close();
    await double.close();
  });
  return { double, mesh };
}

interface Joined {
  readonly room: DeviceRoom;
  readonly events: Mailbox<DeviceRoomEvent>;
}

async function join({ ring }: Pick<MeshRoom, "ring">): Promise<Joined> {
  const room = await ablyConnector({ ably }).join(ring, { signal: patient, capabilities: [{ name: "battery.read" }] });
  onTestFinished(() => room.leave("test over"));
  const events = new Mailbox<DeviceRoomEvent>();
  void (async () => {
    for await (const event of room.events) events.put(event);
  })();
  return { room, events };
}

const isTask = (event: DeviceRoomEvent): event is Extract<DeviceRoomEvent, { type: "envelope" }> =>
  event.type === "envelope" && event.envelope.type === "task";
const isClosed = (event: DeviceRoomEvent): event is Extract<DeviceRoomEvent, { type: "closed" }> =>
  event.type === "closed";

function joinErrorOf(attempt: Promise<unknown>): Promise<JoinError> {
  return attempt.then(
    () => {
      throw new Error("the join worked");
    },
    (error: JoinError) => error,
  );
}

const clientOf = ({ ring }: MeshRoom): string => ring.join.params?.client ?? "";

describe("a device in an Ably room", () => {
  it("comes, gets the task, answers and is gone", async () => {
    const { mesh } = await world();
    const meshRoom = await mesh.open();
    const { room, events } = await join(meshRoom);
    expect(await meshRoom.event("joined")).toEqual({ type: "joined", capabilities: [{ name: "battery.read" }] });
    expect(await meshRoom.task()).toEqual({ status: "handed" });
    const { envelope } = await events.next(isTask);
    expect(envelope).toMatchObject({ type: "task", id: "ask_1", action: "battery.read" });
    room.send({ type: "accepted", id: "ask_1" });
    room.send({ type: "reply", id: "ask_1", outcome: "done", data: { percent: 71 } });
    expect(await room.acked(patient)).toBe(true);
    expect((await meshRoom.event("frame")).envelope).toEqual({ type: "accepted", id: "ask_1" });
    expect((await meshRoom.event("frame")).envelope).toMatchObject({ outcome: "done", data: { percent: 71 } });
    await room.leave("done");
    expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "left", delivered: "yes" });
  });

  it("is told when the mesh closes the room, and one that comes late finds it closed", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    const { events } = await join(meshRoom);
    await meshRoom.room.close("settled");
    expect(await events.next(isClosed)).toMatchObject({ reason: "closed" });
    expect(await joinErrorOf(join(meshRoom))).toMatchObject({ kind: "over" });
    await expect.poll(() => double.connected).toEqual(["leafmesh-mesh"]);
  });

  it("is told that its task is over", async () => {
    const { mesh } = await world();
    const meshRoom = await mesh.open();
    const { events } = await join(meshRoom);
    await meshRoom.event("joined");
    await meshRoom.task();
    await meshRoom.room.cancel("ask_1", "nobody waits any more");
    await events.next(isTask);
    expect(await events.next()).toMatchObject({ envelope: { type: "cancel", id: "ask_1" } });
  });

  it("says that the person did not allow it, without a seat", async () => {
    const { mesh } = await world();
    const meshRoom = await mesh.open();
    await ablyConnector({ ably }).refuse(meshRoom.ring, patient);
    await meshRoom.event("refused");
    expect(meshRoom.takeAll()).toEqual([]);
  });

  it("that loses its network comes back to what was sent meanwhile, each message once", async () => {
    const { double, mesh } = await world({ remainPresentMs: 60_000 });
    const meshRoom = await mesh.open();
    const { room, events } = await join(meshRoom);
    await meshRoom.event("joined");
    double.cut(clientOf(meshRoom));
    expect(await events.next()).toEqual({ type: "away" });
    expect(await meshRoom.task()).toEqual({ status: "handed" });
    room.send({ type: "reply", id: "ask_1", outcome: "done" });
    expect(room.send({ type: "progress", id: "ask_1", note: "half" })).toBe("dropped");
    await events.next(isTask);
    expect((await meshRoom.event("frame")).envelope).toMatchObject({ type: "reply" });
    expect(await room.acked(patient)).toBe(true);
    expect(double.published.filter(({ clientId }) => clientId === clientOf(meshRoom))).toHaveLength(1);
  });

  it("that is lost for good with a task may have done it", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
    await meshRoom.task();
    double.cut(clientOf(meshRoom), { forGood: true });
    await meshRoom.event("away");
    expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "lost", delivered: "maybe" });
  });

  it("that is lost before the task has certainly not done it", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
    double.cut(clientOf(meshRoom), { forGood: true });
    expect(await meshRoom.event("left")).toEqual({ type: "left", reason: "lost", delivered: "no" });
  });

  it("with a ring that somebody else holds as well is the only one that gets the task", async () => {
    const { mesh } = await world();
    const meshRoom = await mesh.open();
    const first = await join(meshRoom);
    await meshRoom.event("joined");
    const second = await join(meshRoom);
    expect(await meshRoom.event("dropped")).toMatchObject({ why: "a second connection with the same ring" });
    await meshRoom.task();
    await first.events.next(isTask);
    first.room.send({ type: "reply", id: "ask_1", outcome: "done" });
    await meshRoom.event("frame");
    expect(second.events.takeAll()).toEqual([]);
  });

  it("whose token has run out learns that it is over", async () => {
    const { mesh } = await world();
    const meshRoom = await mesh.open({}, { lifetimeMs: 1_000 });
    const { events } = await join(meshRoom);
    expect(await events.next(isClosed)).toMatchObject({ reason: "expired" });
    expect(await joinErrorOf(join(meshRoom))).toMatchObject({ kind: "over" });
  });

  it("gives up when its time is over before it was let in", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    double.refuse("connect", { code: 50_003, statusCode: 503, message: "overloaded" });
    const { kind } = await joinErrorOf(
      ablyConnector({ ably }).join(meshRoom.ring, { signal: AbortSignal.timeout(300) }),
    );
    expect(kind).toBe("unreachable");
  });

  it("does not go to an address that is none", async () => {
    const { mesh } = await world();
    const { ring } = await mesh.open();
    for (const join of [
      { ...ring.join, url: "https://evil.example/x?" },
      { ...ring.join, token: undefined },
      { ...ring.join, params: {} },
    ]) {
      const attempt = ablyConnector({ ably }).join({ ...ring, join }, { signal: patient });
      expect(await joinErrorOf(attempt)).toMatchObject({ kind: "unsupported" });
    }
  });
});

describe("the mesh in an Ably room", () => {
  it("believes nobody but the device of the room", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
    const { room: channel } = meshRoom.ring.join;
    const reply = JSON.stringify({ type: "reply", id: "ask_1", outcome: "done" });
    double.inject(channel, { clientId: "intruder", name: "up", data: reply });
    expect(await meshRoom.event("dropped")).toMatchObject({ why: "from another client" });
    double.inject(channel, { clientId: clientOf(meshRoom), name: "up", data: "{" });
    expect(await meshRoom.event("dropped")).toMatchObject({ why: "not an envelope" });
    const large = JSON.stringify({ type: "reply", id: "ask_1", outcome: "done", data: "x".repeat(70_000) });
    double.inject(channel, { clientId: clientOf(meshRoom), name: "up", data: large });
    expect(await meshRoom.event("dropped")).toMatchObject({ why: "too large", tooLarge: true });
    expect(meshRoom.takeAll()).toEqual([]);
  });

  it("knows before it sends that a task is too large", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    const sent = await meshRoom.task({ inputs: { text: "x".repeat(meshRoom.room.maxTaskBytes) } });
    expect(sent).toMatchObject({ status: "not_handed", error: { kind: "too_big" } });
    expect(double.published).toEqual([]);
    const { length } = JSON.stringify({
      type: "task",
      id: "ask_1",
      action: "battery.read",
      inputs: { text: "" },
      budget_ms: 60_000,
    });
    await join(meshRoom);
    await meshRoom.event("joined");
    expect(await meshRoom.task({ inputs: { text: "x".repeat(meshRoom.room.maxTaskBytes - length) } })).toEqual({
      status: "handed",
    });
  });

  it.each([
    ["a right that was taken away", ABLY_ERRORS.noRight, "bad_credential"],
    ["the account's limit of messages", { code: 40112, statusCode: 401, message: "" }, "plan_limit"],
    ["the channel's rate", { code: 42911, statusCode: 429, message: "" }, "rate"],
  ] as const)("knows that a task did not leave: %s", async (_title, error, kind) => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
    double.refuse("publish", error);
    expect(await meshRoom.task()).toMatchObject({ status: "not_handed", error: { kind } });
  });

  it("does not know when Ably itself is in trouble: the task may have left", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
    double.refuse("publish", { code: 50_000, statusCode: 500, message: "internal" });
    expect(await meshRoom.task()).toEqual({ status: "handed" });
  });

  it("sends nothing later that could not leave now", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
    double.refuse("connect", { code: 50_003, statusCode: 503, message: "overloaded" });
    double.cut("leafmesh-mesh");
    const opens = () => mesh.open({}, { signal: AbortSignal.timeout(100) });
    await expect
      .poll(() =>
        opens().then(
          () => "open",
          () => "down",
        ),
      )
      .toBe("down");
    expect(await meshRoom.task()).toMatchObject({ status: "not_handed", error: { kind: "unavailable" } });
    double.refuse("connect", undefined);
    await expect.poll(() => double.connected, { timeout: 30_000 }).toContain("leafmesh-mesh");
    await meshRoom.room.close("over");
    expect(double.published.filter(({ data }) => String(data).includes('"task"'))).toEqual([]);
  }, 20_000);

  it("opens no room in vain: nothing is left when Ably refuses", async () => {
    const { double, mesh } = await world();
    double.refuse("attach", ABLY_ERRORS.noRight);
    await expect(mesh.open()).rejects.toMatchObject({
      name: "RoomError",
      kind: "bad_credential",
      message: expect.stringContaining("publish, subscribe and presence on leafmesh:*"),
    });
    double.refuse("attach", undefined);
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
  });

  it("names the cure when the key is refused, and works again once it is not", async () => {
    const { double, mesh } = await world();
    double.refuse("connect", ABLY_ERRORS.badKey);
    await expect(mesh.open()).rejects.toMatchObject({ kind: "bad_credential", code: "40101" });
    double.refuse("connect", undefined);
    expect((await mesh.open()).room.label).toMatch(/^room_/);
  });

  it("gives the device a token for its one channel and no key", async () => {
    const { double, mesh } = await world();
    const { ring } = await mesh.open();
    const [, secret = ""] = double.key.split(":");
    expect(JSON.stringify(ring)).not.toContain(secret);
    const claims = JSON.parse(Buffer.from(ring.join.token?.split(".")[1] ?? "", "base64url").toString());
    expect(JSON.parse(claims["x-ably-capability"])).toEqual({ [ring.join.room]: ["publish", "subscribe", "presence"] });
    expect(claims["x-ably-clientId"]).toBe(ring.join.params?.client);
    expect(claims.exp - Date.now() / 1000).toBeLessThanOrEqual(181);
    const stolen = new ably.Realtime({
      ...{
        token: ring.join.token ?? "",
        endpoint: "127.0.0.1",
        port: Number(double.endpoint.split(":")[1]),
        tls: false,
      },
      ...{ useBinaryProtocol: false, logLevel: 0 },
    });
    onTestFinished(() => stolen.close());
    await expect(stolen.channels.get("leafmesh:another").attach()).rejects.toMatchObject({ code: 40160 });
  });
});
