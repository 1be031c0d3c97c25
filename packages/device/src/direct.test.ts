import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createDirectHub, type DirectHub, hashDirectToken } from "@leafmesh/notifiers";
import { DIRECT_CLOSE, DIRECT_SUBPROTOCOL, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { Mailbox } from "@leafmesh/testkit/suites";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { cuttableWebSocket } from "../testing/cuttable-socket.ts";
import { ringFor } from "../testing/rings.ts";
import { type RoomDouble, startRoomDouble } from "../testing/room-double.ts";
import { connectDirect, type DirectConnection, type DirectOptions, type DirectState, directAddress } from "./direct.ts";

const connections: DirectConnection[] = [];
afterEach(() => {
  for (const connection of connections.splice(0)) connection.close();
});

function connect(url: string, changes: Partial<DirectOptions> = {}) {
  const clock = createFakeClock();
  const rings = new Mailbox<string>();
  const states = new Mailbox<DirectState>();
  const connection = connectDirect({
    url,
    id: "phone-7",
    token: "secret-of-phone-7",
    onRing: (ring) => rings.put(ring),
    onState: (state) => states.put(state),
    clock,
    random: () => 1,
    ...changes,
  });
  connections.push(connection);
  return { clock, rings, states, connection };
}

const welcome = { type: "welcome", v: 1, idle_s: 25, dead_s: 10 };

describe("against the mesh's hub", () => {
  let hub: DirectHub;
  let url: string;
  let closeServer: () => Promise<void>;
  beforeEach(async () => {
    hub = createDirectHub({ clock: systemClock, logger: silentLogger });
    const server = createServer();
    server.on("upgrade", (request, socket, head) => hub.handleUpgrade(request, socket, head));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1/direct`;
    closeServer = () => new Promise((resolve) => server.close(() => resolve()));
  });
  afterEach(async () => {
    await hub.close();
    await closeServer();
  });

  const body = JSON.stringify(ringFor(Date.now()));
  const ringPhone = (token = "secret-of-phone-7") =>
    hub.ring(
      { deviceId: "phone-7", tokenHash: hashDirectToken(new Secret(token)), askId: "ask_1", body },
      new AbortController().signal,
    );

  it("is rung, byte for byte, and confirms it", async () => {
    const { connection, rings } = connect(url);
    await connection.ready();
    expect(connection.state).toBe("ready");
    expect(await ringPhone()).toBe("received");
    expect(await rings.next()).toBe(body);
  });

  it("confirms a ring even when the listener throws", async () => {
    const { connection } = connect(url, {
      onRing: () => {
        throw new Error("bug");
      },
    });
    await connection.ready();
    expect(await ringPhone()).toBe("received");
    expect(await ringPhone()).toBe("received");
  });

  it("is not rung by its id alone", async () => {
    const { connection } = connect(url);
    await connection.ready();
    expect(await ringPhone("guess")).toBe("no_socket");
  });

  it("gives way to a newer connection of its own, and does not fight it", async () => {
    const first = connect(url);
    await first.connection.ready();
    const second = connect(url);
    await second.connection.ready();
    expect(await first.states.next((state) => state !== "ready")).toBe("replaced");
    expect(first.clock.pendingTimers).toBe(0);
    expect(hub.connected()).toBe(1);
    expect(await ringPhone()).toBe("received");
    expect(await second.rings.next()).toBe(body);
    await expect(first.connection.ready()).rejects.toThrow("is replaced");
  });

  it("comes back after the link was cut", async () => {
    const cuttable = cuttableWebSocket();
    const { clock, connection, states } = connect(url, { WebSocket: cuttable.WebSocket });
    await connection.ready();
    cuttable.cut();
    await states.next((state) => state === "waiting");
    await clock.advance(500);
    await connection.ready();
    expect(await ringPhone()).toBe("received");
  });

  it("is gone once closed", async () => {
    const { connection, states } = connect(url);
    await connection.ready();
    connection.close();
    connection.close();
    expect(await states.next((state) => state !== "ready")).toBe("closed");
    await expect(connection.ready()).rejects.toThrow("is closed");
  });
});

describe("against a mesh that errs", () => {
  let service: RoomDouble;
  beforeEach(async () => {
    service = await startRoomDouble(DIRECT_SUBPROTOCOL);
  });
  afterEach(() => service.close());

  it("says who it is first", async () => {
    connect(service.url);
    expect(await (await service.connection()).frame("hello")).toEqual({
      type: "hello",
      v: 1,
      id: "phone-7",
      token: "secret-of-phone-7",
    });
  });

  it("waits longer and longer while nobody is there, at most half a minute", async () => {
    service.setOpen(false);
    const { clock, states } = connect(service.url);
    const ready = connections.at(-1)?.ready();
    for (const waitMs of [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
      expect(await states.next((state) => state === "waiting")).toBe("waiting");
      await clock.advance(waitMs - 1);
      expect(states.takeAll()).toEqual([]);
      await clock.advance(1);
      expect(await states.next()).toBe("connecting");
    }
    service.setOpen(true);
    await states.next((state) => state === "waiting");
    await clock.advance(30_000);
    (await service.connection()).send(welcome);
    await ready;
  });

  it("tries at once when told to", async () => {
    service.setOpen(false);
    const { connection, states } = connect(service.url);
    connection.retryNow();
    await states.next((state) => state === "waiting");
    service.setOpen(true);
    connection.retryNow();
    (await service.connection()).send(welcome);
    await connection.ready();
    connection.retryNow();
    expect(connection.state).toBe("ready");
  });

  it("tries again when there is no welcome", async () => {
    const { clock, states } = connect(service.url);
    await (await service.connection()).frame("hello");
    await clock.advance(10_000);
    await states.next((state) => state === "waiting");
    await clock.advance(500);
    await (await service.connection()).frame("hello");
  });

  it("notices a mesh that has gone silent", async () => {
    const { clock, connection, states } = connect(service.url);
    const socket = await service.connection();
    socket.send(welcome);
    await connection.ready();
    await clock.advance(25_000);
    await socket.frame("ping");
    await clock.advance(10_000);
    expect(await states.next((state) => state === "waiting")).toBe("waiting");
  });

  it("answers pings, ignores extensions, and hands on even what is no ring", async () => {
    const { connection, rings } = connect(service.url);
    const socket = await service.connection();
    socket.send(welcome);
    await connection.ready();
    socket.send({ type: "x-news" });
    socket.send({ type: "ping" });
    expect(await socket.frame("pong")).toEqual({ type: "pong" });
    socket.send({ type: "ring", body: "not a ring" });
    expect(await rings.next()).toBe("not a ring");
    socket.send({ type: "ring", body: '{"ask":"ask_1"}' });
    expect(await socket.frame("ring.received")).toEqual({ type: "ring.received", ask: "ask_1" });
  });

  it.each([
    ["replaced", DIRECT_CLOSE.replaced],
    ["refused", DIRECT_CLOSE.unsupportedVersion],
    ["refused", DIRECT_CLOSE.badFrame],
  ])("is %s for good when closed with %i", async (state, code) => {
    const { clock, connection, states } = connect(service.url);
    const ready = connection.ready();
    (await service.connection()).close(code, "because");
    await expect(ready).rejects.toThrow(`The direct connection is ${state}: because`);
    expect(await states.next()).toBe(state);
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([DIRECT_CLOSE.goingAway, DIRECT_CLOSE.noHello, DIRECT_CLOSE.tooSlow])(
    "comes back when closed with %i",
    async (code) => {
      const { clock, states } = connect(service.url);
      (await service.connection()).close(code);
      expect(await states.next()).toBe("waiting");
      await clock.advance(500);
      await (await service.connection()).frame("hello");
    },
  );

  it("goes no further with a mesh that does not speak the protocol", async () => {
    const { states } = connect(service.url);
    const socket = await service.connection();
    socket.send({ type: "surprise" });
    expect(await states.next()).toBe("refused");
    expect(await socket.closed).toBe(DIRECT_CLOSE.badFrame);
  });

  it("is not confused by a listener that closes it", async () => {
    const { clock, connection } = connect(service.url, { onState: () => connection.close() });
    (await service.connection()).close(DIRECT_CLOSE.goingAway);
    while (connection.state !== "closed") await clock.advance(0);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("connectDirect", () => {
  it("takes an address without TLS for this machine alone, and a token that can be written down", () => {
    expect(() => connect("ws://mesh.example.com/v1/direct")).toThrow("url must start with wss://");
    expect(() => connect("wss://mesh.example.com/v1/direct", { token: "" })).toThrow("token must not be empty");
    expect(() => connect("wss://mesh.example.com/v1/direct", { token: "a\nb" })).toThrow("printable");
    expect(() => connect("wss://mesh.example.com/v1/direct", { token: "x".repeat(513) })).toThrow("at most 512");
  });
});

describe("directAddress", () => {
  it.each([
    ["http://127.0.0.1:18820", "ws://127.0.0.1:18820/v1/direct"],
    ["https://mesh.example.com/", "wss://mesh.example.com/v1/direct"],
    ["wss://mesh.example.com/below/v1/direct", "wss://mesh.example.com/below/v1/direct"],
  ])("of %s is %s", (mesh, direct) => expect(directAddress(mesh)).toBe(direct));
});
