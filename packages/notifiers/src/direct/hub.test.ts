import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { DIRECT_CLOSE, DIRECT_SUBPROTOCOL, MAX_RING_BYTES, Secret, silentLogger } from "@leafmesh/protocol";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { createDirectHub, type DirectHub, type DirectLimits, hashDirectToken } from "./hub.ts";

let clock: FakeClock;
let hub: DirectHub;
let server: Server;
const sockets: WebSocket[] = [];

async function start(limits: Partial<DirectLimits> = {}, remoteAddress?: string): Promise<void> {
  hub = createDirectHub({ clock, logger: silentLogger, limits });
  server = createServer();
  server.on("upgrade", (request, socket, head) => {
    if (remoteAddress) Object.defineProperty(request.socket, "remoteAddress", { value: remoteAddress });
    hub.handleUpgrade(request, socket, head);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
}

beforeEach(() => {
  clock = createFakeClock();
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.terminate();
  await hub.close();
  await new Promise((resolve) => server.close(resolve));
});

interface Client {
  readonly socket: WebSocket;
  /** The next frame of the mesh. */
  next(): Promise<unknown>;
  send(frame: unknown): void;
  readonly closed: Promise<number>;
}

function open(protocol: string = DIRECT_SUBPROTOCOL): Client {
  const socket = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1/direct`, protocol);
  sockets.push(socket);
  const frames: unknown[] = [];
  const readers: ((frame: unknown) => void)[] = [];
  socket.on("message", (data) => {
    const frame: unknown = JSON.parse(data.toString());
    const reader = readers.shift();
    if (reader) reader(frame);
    else frames.push(frame);
  });
  socket.on("error", () => {});
  return {
    socket,
    next: async () => (frames.length > 0 ? frames.shift() : new Promise((resolve) => readers.push(resolve))),
    send: (frame) => socket.send(typeof frame === "string" ? frame : JSON.stringify(frame)),
    closed: new Promise((resolve) => socket.on("close", resolve)),
  };
}

async function device(token: string, id = "phone-7"): Promise<Client> {
  const client = open();
  await once(client.socket, "open");
  client.send({ type: "hello", v: 1, id, token });
  expect(await client.next()).toMatchObject({ type: "welcome" });
  return client;
}

/** The HTTP status with which an upgrade is refused. */
async function refusal(protocol?: string): Promise<number> {
  const { socket } = open(protocol);
  const [, response] = await once(socket, "unexpected-response");
  return response.statusCode;
}

function ring(
  token: string,
  deviceId = "phone-7",
  signal = new AbortController().signal,
  askId = "ask_1",
  body = askId === "ask_1" ? '{"ask":"ask_1"}' : askId,
) {
  return hub.ring({ deviceId, tokenHash: hashDirectToken(new Secret(token)), askId, body }, signal);
}

describe("ringing", () => {
  it("reaches the device with this id and this token, and resolves when it confirms", async () => {
    await start();
    const client = await device("right");
    const ringing = ring("right");
    expect(await client.next()).toEqual({ type: "ring", body: '{"ask":"ask_1"}' });
    client.send({ type: "ring.received", ask: "ask_1" });
    expect(await ringing).toBe("received");
  });

  it("reaches nobody with another token, another id, or before the hello", async () => {
    await start();
    const client = await device("right");
    const silent = open();
    await once(silent.socket, "open");
    expect(await ring("wrong")).toBe("no_socket");
    expect(await ring("right", "phone-8")).toBe("no_socket");
    expect(await ring("")).toBe("no_socket");
    client.send({ type: "ping" });
    expect(await client.next()).toEqual({ type: "pong" });
  });

  it("counts as written when the device does not confirm in time", async () => {
    await start();
    const client = await device("right");
    const ringing = ring("right");
    await client.next();
    client.send({ type: "ring.received", ask: "another" });
    await clock.advance(2000);
    expect(await ringing).toBe("written");
  });

  it("counts as not delivered when the socket closes under it", async () => {
    await start();
    const client = await device("right");
    const ringing = ring("right");
    await client.next();
    client.socket.terminate();
    expect(await ringing).toBe("no_socket");
    expect(await ring("right")).toBe("no_socket");
  });

  it("ends when the caller gives up", async () => {
    await start();
    const client = await device("right");
    const stop = new AbortController();
    const ringing = ring("right", "phone-7", stop.signal);
    await client.next();
    stop.abort();
    expect(await ringing).toBe("written");
    expect(await ring("right", "phone-7", stop.signal)).toBe("no_socket");
  });

  it("carries the largest ring", async () => {
    await start();
    const client = await device("right");
    const body = "x".repeat(MAX_RING_BYTES);
    void hub.ring(
      { deviceId: "phone-7", tokenHash: hashDirectToken(new Secret("right")), askId: "ask_1", body },
      new AbortController().signal,
    );
    expect(await client.next()).toEqual({ type: "ring", body });
  });

  it("reaches a device with all of a thousand rings at once, in order", async () => {
    await start();
    const client = await device("right");
    const asks = Array.from({ length: 1000 }, (_, index) => `ask-${index}`);
    const ringing = asks.map((ask) => ring("right", "phone-7", undefined, ask));
    for (const ask of asks) {
      expect(await client.next()).toEqual({ type: "ring", body: ask });
      client.send({ type: "ring.received", ask });
    }
    expect(new Set(await Promise.all(ringing))).toEqual(new Set(["received"]));
    expect(clock.pendingTimers).toBe(1);
  });

  it("does not send a device away for many large rings at once", async () => {
    await start();
    const client = await device("right");
    const body = "x".repeat(MAX_RING_BYTES);
    const ringing = Array.from({ length: 100 }, (_, index) =>
      ring("right", "phone-7", undefined, `ask_${index}`, body),
    );
    for (const index of ringing.keys()) {
      expect(await client.next()).toEqual({ type: "ring", body });
      client.send({ type: "ring.received", ask: `ask_${index}` });
    }
    expect(new Set(await Promise.all(ringing))).toEqual(new Set(["received"]));
  });

  it("does not pile up behind a device that never confirms: what had no turn in time was not written", async () => {
    await start();
    const client = await device("right");
    const ringing = Array.from({ length: 33 }, () => ring("right"));
    await clock.advance(2000);
    expect(await ringing[32]).toBe("busy");
    await clock.advance(2000);
    expect(await Promise.all(ringing)).toEqual([...Array.from({ length: 32 }, () => "written"), "busy"]);
    for (let count = 1; count <= 32; count++) expect(await client.next()).toMatchObject({ type: "ring" });
    client.send({ type: "ping" });
    expect(await client.next()).toEqual({ type: "pong" });
  });

  it("takes no more than can be kept", async () => {
    await start();
    await device("right");
    const ringing = Array.from({ length: 1017 }, () => ring("right"));
    expect(await ringing[1016]).toBe("busy");
    await clock.advance(2000);
    await clock.advance(2000);
    await Promise.all(ringing);
    expect(clock.pendingTimers).toBe(1);
  });

  it("says that nobody is there to whom waits in line when the socket closes", async () => {
    await start();
    const client = await device("right");
    const ringing = Array.from({ length: 20 }, () => ring("right"));
    await client.next();
    client.socket.terminate();
    expect(new Set(await Promise.all(ringing))).toEqual(new Set(["no_socket"]));
  });
});

describe("several sockets that claim one id", () => {
  it("with other tokens take nothing away from the right one, whenever they come", async () => {
    await start();
    const before = await device("attacker-1");
    const right = await device("right");
    const after = await device("attacker-2");
    const ringing = ring("right");
    expect(await right.next()).toMatchObject({ type: "ring" });
    right.send({ type: "ring.received", ask: "ask_1" });
    expect(await ringing).toBe("received");
    for (const attacker of [before, after]) {
      attacker.send({ type: "ring.received", ask: "ask_1" });
      attacker.send({ type: "ping" });
      expect(await attacker.next()).toEqual({ type: "pong" });
    }
    expect(hub.connected()).toBe(3);
  });

  it("cannot confirm each other's rings", async () => {
    await start();
    const right = await device("right");
    const attacker = await device("attacker");
    const ringing = ring("right");
    await right.next();
    attacker.send({ type: "ring.received", ask: "ask_1" });
    attacker.send({ type: "ping" });
    await attacker.next();
    await clock.advance(2000);
    expect(await ringing).toBe("written");
  });

  it("and have the right token: the newest one counts", async () => {
    await start();
    const older = await device("right");
    const newer = await device("right");
    expect(await older.closed).toBe(DIRECT_CLOSE.replaced);
    void ring("right");
    expect(await newer.next()).toMatchObject({ type: "ring" });
    expect(hub.connected()).toBe(1);
  });
});

describe("a socket", () => {
  it("must speak the subprotocol", async () => {
    await start();
    expect(await refusal("leafmesh.room.v1")).toBe(426);
  });

  it("is sent away without a hello in time", async () => {
    await start();
    const client = open();
    await once(client.socket, "open");
    await clock.advance(5000);
    expect(await client.closed).toBe(DIRECT_CLOSE.noHello);
  });

  const hello = { type: "hello", v: 1, id: "phone-7", token: "right" };
  it.each<[string, unknown, number]>([
    ["something else than a hello", { type: "ping" }, DIRECT_CLOSE.badFrame],
    ["no JSON", "hello", DIRECT_CLOSE.badFrame],
    ["an unknown frame", { type: "surprise" }, DIRECT_CLOSE.badFrame],
    ["an id that is none", { ...hello, id: "phone 7" }, DIRECT_CLOSE.badFrame],
    ["no token", { ...hello, token: "" }, DIRECT_CLOSE.badFrame],
    ["a token that cannot be printed", { ...hello, token: "a\u0000b" }, DIRECT_CLOSE.badFrame],
    ["another version", { ...hello, v: 2 }, DIRECT_CLOSE.unsupportedVersion],
    ["too much", { ...hello, more: "x".repeat(9000) }, 1009],
  ])("is sent away when it says %s", async (_what, frame, code) => {
    await start();
    const client = open();
    await once(client.socket, "open");
    client.send(frame);
    expect(await client.closed).toBe(code);
    expect(hub.connected()).toBe(0);
  });

  it("is sent away when it says hello twice", async () => {
    await start();
    const client = await device("right");
    client.send(hello);
    expect(await client.closed).toBe(DIRECT_CLOSE.badFrame);
  });

  it("is sent away when it sends bytes", async () => {
    await start();
    const client = await device("right");
    client.socket.send(Buffer.from("{}"));
    expect(await client.closed).toBe(DIRECT_CLOSE.badFrame);
  });

  it("may send extensions", async () => {
    await start();
    const client = await device("right");
    client.send({ type: "x-battery", level: 71 });
    client.send({ type: "ping" });
    expect(await client.next()).toEqual({ type: "pong" });
  });

  it("is pinged when it is silent, and given up when it stays so", async () => {
    await start();
    const client = await device("right");
    await clock.advance(25_000);
    expect(await client.next()).toEqual({ type: "ping" });
    await clock.advance(10_000);
    expect(await client.closed).toBe(1006);
  });

  it("is kept when it answers", async () => {
    await start();
    const client = await device("right");
    for (let turn = 0; turn < 3; turn++) {
      await clock.advance(25_000);
      expect(await client.next()).toEqual({ type: "ping" });
      client.send({ type: "pong" });
      client.send({ type: "ping" });
      expect(await client.next()).toEqual({ type: "pong" });
    }
    expect(hub.connected()).toBe(1);
  });

  it("that is closed is forgotten", async () => {
    await start();
    const client = await device("right");
    client.socket.close();
    await client.closed;
    while (hub.connected() > 0) await clock.advance(0);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("limits", () => {
  it("hold for all sockets together, hello or not", async () => {
    await start({ sockets: 2 });
    const first = await device("a");
    await once(open().socket, "open");
    expect(await refusal()).toBe(503);
    first.socket.close();
    await first.closed;
    await device("b");
  });

  it("hold for one address", async () => {
    await start({ socketsPerAddress: 1 }, "203.0.113.7");
    await device("a");
    expect(await refusal()).toBe(503);
  });

  it.each(["127.0.0.1", "::1", "::ffff:127.0.0.1"])("do not hold for %s, where a reverse proxy is", async (address) => {
    await start({ socketsPerAddress: 1 }, address);
    await device("a");
    await device("b");
    expect(hub.connected()).toBe(2);
  });
});

describe("closing", () => {
  it("sends everyone away, to come back later, and takes nobody new", async () => {
    await start();
    const client = await device("right");
    await hub.close();
    expect(await client.closed).toBe(DIRECT_CLOSE.goingAway);
    expect(await refusal()).toBe(503);
    expect(hub.connected()).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  it("does not wait for a device that does not answer", async () => {
    await start();
    const client = await device("right");
    client.socket.pause();
    const closing = hub.close();
    await clock.advance(2000);
    await closing;
    client.socket.resume();
    await client.closed;
  });
});
