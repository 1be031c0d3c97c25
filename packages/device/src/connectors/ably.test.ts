import { ablyRoom } from "@leafmesh/rooms";
import { ABLY_ERRORS, type AblyDouble, type AblyDoubleOptions, startAblyDouble } from "@leafmesh/testkit/ably";
import {
  Mailbox,
  type MeshRoom,
  patient,
  type RoomMesh,
  type RoomServiceUnderTest,
  startRoomMesh,
  testRoom,
} from "@leafmesh/testkit/suites";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import * as ably from "ably";
import { describe, expect, it, onTestFinished } from "vitest";
import type { DeviceRoomEvent, JoinError } from "../connector.ts";
import { ablyConnector } from "./ably.ts";

const REFUSALS = {
  bad_credential: ABLY_ERRORS.noRight,
  plan_limit: { code: 40_112, statusCode: 401, message: "" },
  rate: { code: 42_911, statusCode: 429, message: "" },
  trouble: { code: 50_000, statusCode: 500, message: "internal" },
} as const;

async function start(): Promise<RoomServiceUnderTest> {
  const double = await startAblyDouble({ remainPresentMs: 150 });
  const between = await startTcpProxy(Number(double.endpoint.split(":")[1]));
  const record = { api_key: double.key, endpoint: `127.0.0.1:${between.port}` };
  return {
    definition: ablyRoom,
    record,
    secrets: [double.key.split(":")[1] ?? ""],
    connector: () => ablyConnector({ ably }),
    cut: ({ join }, how) => double.cut(join.params?.client ?? "", how),
    restore: ({ join }) => double.restore(join.params?.client ?? ""),
    stall() {
      between.set({ stallUp: true, stallDown: true });
      return () => between.set({ stallUp: false, stallDown: false });
    },
    refuseCheck(how) {
      if (how === "failing") return { ...record, api_key: `${double.key}-not` };
      between.block();
      return record;
    },
    inject: ({ join }, from, data) =>
      double.inject(join.room, {
        clientId: from === "device" ? (join.params?.client ?? "") : "intruder",
        ...{ name: "up", data },
      }),
    refuse(phase, how) {
      if (how !== "trouble" && !(how in REFUSALS)) return undefined;
      const at = phase === "open" ? "attach" : "publish";
      double.refuse(at, REFUSALS[how as keyof typeof REFUSALS]);
      return () => double.refuse(at, undefined);
    },
    tasksTaken: () => double.published.filter(({ data }) => String(data).startsWith('{"type":"task"')).length,
    async close() {
      await between.stop();
      await double.close();
    },
  };
}

testRoom("ably", start, {
  cannot: {
    repeat: "Ably itself takes a message with an id that it had only once",
    expire: "a token ends in seconds of real time, as the connector's own tests show",
    end: "Ably ends no channel; a connection that it refuses is in the connector's own tests",
  },
});

async function world(options: AblyDoubleOptions = {}): Promise<{ double: AblyDouble; mesh: RoomMesh }> {
  const double = await startAblyDouble(options);
  const mesh = startRoomMesh(ablyRoom, { api_key: double.key, endpoint: double.endpoint });
  onTestFinished(async () => {
    await mesh.close();
    await double.close();
  });
  return { double, mesh };
}

async function join({ ring }: Pick<MeshRoom, "ring">): Promise<Mailbox<DeviceRoomEvent>> {
  const room = await ablyConnector({ ably }).join(ring, { signal: patient });
  onTestFinished(() => room.leave("test over"));
  return new Mailbox(room.events);
}

function joinErrorOf(attempt: Promise<unknown>): Promise<JoinError> {
  return attempt.then(
    () => {
      throw new Error("the join worked");
    },
    (error: JoinError) => error,
  );
}

describe("a device in an Ably room", () => {
  it("that loses its network hears so, and drops what nobody needs late", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    const room = await ablyConnector({ ably }).join(meshRoom.ring, { signal: patient });
    onTestFinished(() => room.leave("test over"));
    const events = new Mailbox<DeviceRoomEvent>(room.events);
    double.cut(meshRoom.ring.join.params?.client ?? "");
    expect(await events.next()).toEqual({ type: "away" });
    expect(room.send({ type: "progress", id: "ask_1", note: "half" })).toBe("dropped");
    expect(await events.next()).toEqual({ type: "back" });
  });

  it("whose token has run out learns that it is over", async () => {
    const { mesh } = await world();
    const meshRoom = await mesh.open({}, { lifetimeMs: 1_000 });
    const events = await join(meshRoom);
    expect(await events.next(({ type }) => type === "closed")).toMatchObject({ reason: "expired" });
    expect(await joinErrorOf(join(meshRoom))).toMatchObject({ kind: "over" });
  });

  it("gives up when its time is over before it was let in", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    double.refuse("connect", { code: 50_003, statusCode: 503, message: "overloaded" });
    const attempt = ablyConnector({ ably }).join(meshRoom.ring, { signal: AbortSignal.timeout(300) });
    expect(await joinErrorOf(attempt)).toMatchObject({ kind: "unreachable" });
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
  it("believes a device no answer that is over the limit, and says that there was one", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    const clientId = meshRoom.ring.join.params?.client ?? "";
    const data = JSON.stringify({ type: "reply", id: "ask_1", outcome: "done", data: "x".repeat(70_000) });
    double.inject(meshRoom.ring.join.room, { clientId, name: "up", data });
    expect(await meshRoom.event("dropped")).toMatchObject({ why: "too large", tooLarge: true });
  });

  it("sends nothing later that could not leave now", async () => {
    const { double, mesh } = await world();
    const meshRoom = await mesh.open();
    await join(meshRoom);
    await meshRoom.event("joined");
    double.refuse("connect", { code: 50_003, statusCode: 503, message: "overloaded" });
    double.cut("leafmesh-mesh");
    const opens = () => mesh.open({}, { signal: AbortSignal.timeout(100) });
    const look = () =>
      opens().then(
        () => "open",
        () => "down",
      );
    await expect.poll(look).toBe("down");
    expect(await meshRoom.task()).toMatchObject({ status: "not_handed", error: { kind: "unavailable" } });
    double.refuse("connect", undefined);
    await expect.poll(() => double.connected, { timeout: 10_000 }).toContain("leafmesh-mesh");
    await meshRoom.room.close("over");
    expect(double.published.filter(({ data }) => String(data).includes('"task"'))).toEqual([]);
  }, 20_000);

  it("names the cure when the key is refused, and works again once it is not", async () => {
    const { double, mesh } = await world();
    double.refuse("connect", ABLY_ERRORS.badKey);
    await expect(mesh.open()).rejects.toMatchObject({ kind: "bad_credential", code: "40101" });
    double.refuse("connect", undefined);
    expect((await mesh.open()).room.label).toMatch(/^room_/);
  });

  it("gives the device a token for its one channel", async () => {
    const { double, mesh } = await world();
    const { ring } = await mesh.open();
    const claims = JSON.parse(Buffer.from(ring.join.token?.split(".")[1] ?? "", "base64url").toString());
    expect(JSON.parse(claims["x-ably-capability"])).toEqual({ [ring.join.room]: ["publish", "subscribe", "presence"] });
    expect(claims["x-ably-clientId"]).toBe(ring.join.params?.client);
    expect(claims.exp - Date.now() / 1000).toBeLessThanOrEqual(181);
    const stolen = new ably.Realtime({
      ...{ token: ring.join.token ?? "", endpoint: "127.0.0.1", tls: false },
      ...{ port: Number(double.endpoint.split(":")[1]), useBinaryProtocol: false, logLevel: 0 },
    });
    onTestFinished(() => stolen.close());
    await expect(stolen.channels.get("leafmesh:another").attach()).rejects.toMatchObject({ code: 40160 });
  });
});
