import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { randomId, Secret, silentLogger, systemClock, type TaskEnvelope } from "@leafmesh/protocol";
import { type RoomServer, type ServeRoomsOptions, serveRooms } from "@leafmesh/room-service";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocketServer } from "ws";
import { joinAsDevice, readRoom } from "../../testing/test-device.ts";
import type { OpenRoom, Room, RoomProvider } from "../contract.ts";
import { customRoom } from "./room.ts";

const KEY = "the-mesh-key-for-the-room-service";
const patient = new AbortController().signal;
const request: OpenRoom = {
  askId: "ask_1",
  deviceId: "phone-7",
  approval: "ask",
  joinWithinMs: 30_000,
  lifetimeMs: 60_000,
};
const task: TaskEnvelope = { type: "task", id: "ask_1", action: "battery.read", inputs: {}, budget_ms: 60_000 };

function providerFor(url: string, api_key = KEY): RoomProvider {
  const provider = customRoom.create(customRoom.options.parse({ url, api_key }), {
    clock: systemClock,
    logger: silentLogger,
    newId: randomId,
    scope: { share: (_key, make) => make() },
  });
  onTestFinished(() => provider.close());
  return provider;
}

/** A service; sockets pass one wire that can be cut, the mesh's HTTP another one. */
async function start(options: Partial<ServeRoomsOptions> = {}) {
  let wire: Awaited<ReturnType<typeof startTcpProxy>> | undefined;
  const server: RoomServer = await serveRooms({
    host: "127.0.0.1",
    port: 0,
    apiKeys: [new Secret(KEY)],
    limits: { grace_s: 2, idle_s: 5 },
    get publicUrl() {
      return wire && `http://127.0.0.1:${wire.port}`;
    },
    ...options,
  });
  const port = Number(new URL(server.url).port);
  const [proxy, http] = [await startTcpProxy(port), await startTcpProxy(port)];
  wire = proxy;
  onTestFinished(async () => {
    await Promise.all([proxy.stop(), http.stop()]);
    await server.close();
  });
  const provider = providerFor(`http://127.0.0.1:${http.port}`);
  const open = async (more: Partial<OpenRoom> = {}) => {
    const room = await provider.open({ ...request, ...more }, patient);
    return { room, read: readRoom(room) };
  };
  const statusOf = async (room: Room) => {
    const answer = await fetch(`${server.url}/v1/rooms/${room.label}`, { headers: { authorization: `Bearer ${KEY}` } });
    return answer.json();
  };
  return { server, proxy, http, provider, open, statusOf };
}

/** The room as a device sees it that does not pass the wire. */
function around(room: Room, server: RoomServer): Room {
  const url = `${server.url.replace("http", "ws")}/v1/connect`;
  return { ...room, label: room.label, join: { ...room.join, url } };
}

/** Something that answers HTTP as it likes. */
async function stub(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const requests: string[] = [];
  const server = createServer((incoming, response) => {
    requests.push(`${incoming.method} ${incoming.url}`);
    incoming.resume();
    answer(incoming, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, server };
}

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

describe("a custom room", () => {
  it("wants an address and a key, and says what is wrong with the address", () => {
    const parse = (url: string) => customRoom.options.safeParse({ url, api_key: "k" }).error?.issues[0];
    expect(parse("http://rooms.example.com")).toMatchObject({
      path: ["url"],
      message: "must start with https:// (http:// only on this machine)",
    });
    expect(parse("https://rooms.example.com")).toBeUndefined();
    expect(customRoom.options.safeParse({ url: "https://rooms.example.com" }).success).toBe(false);
    const options = customRoom.options.parse({ url: "https://rooms.example.com", api_key: "very-secret" });
    expect(JSON.stringify(options)).not.toContain("very-secret");
  });

  it("brings a task to the device and its answer back", async () => {
    const { open, statusOf, server } = await start();
    const { room, read } = await open();
    expect(room.join).toEqual({
      provider: "room",
      url: expect.any(String),
      room: room.label,
      token: expect.any(String),
    });
    const device = await joinAsDevice(room, { capabilities: [{ name: "battery.read" }] });
    expect(await read.event("joined")).toEqual({ type: "joined", capabilities: [{ name: "battery.read" }] });
    expect(await room.send(task, patient)).toEqual({ status: "handed" });
    expect(await device.frame("task")).toMatchObject(task);
    device.send({ type: "accepted", id: "ask_1" });
    device.send({ type: "progress", id: "ask_1", pct: 50 });
    device.send({ type: "reply", id: "ask_1", outcome: "declined" });
    await expect.poll(() => read.events.length).toBe(4);
    expect(read.events.slice(1)).toEqual([
      { type: "frame", envelope: { type: "accepted", id: "ask_1" } },
      { type: "frame", envelope: { type: "progress", id: "ask_1", pct: 50 } },
      { type: "frame", envelope: { type: "reply", id: "ask_1", outcome: "declined" } },
    ]);
    await room.close("done");
    expect(await device.closed()).toBe(4000);
    await read.end;
    expect(await statusOf(room)).toMatchObject({ state: "closed", task: { handed: true, acked: true, replied: true } });
    await expect.poll(() => server.service.stats()).toEqual({ rooms: 0, connections: 0 });
  });

  it("does not tell the service which device it is", async () => {
    let seen = "";
    const { url } = await stub((incoming, response) => {
      incoming.on("data", (data: Buffer) => {
        seen += data.toString();
      });
      incoming.on("end", () => json(response, 503, { error: { code: "unavailable", message: "no", temporary: true } }));
    });
    await expect(providerFor(url).open(request, patient)).rejects.toMatchObject({ kind: "unavailable" });
    expect(JSON.parse(seen)).toEqual({
      ttl_s: 60,
      join_within_s: 30,
      approval: "ask",
      purpose: "task",
      device: { ref: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/) },
    });
  });
});

describe("a mesh that loses its socket", () => {
  it("comes back and gets what the device said meanwhile, each thing once", async () => {
    const { open, proxy, server } = await start();
    const { room, read } = await open();
    const device = await joinAsDevice(around(room, server));
    await read.event("joined");
    await room.send(task, patient);
    await device.frame("task");
    device.send({ type: "accepted", id: "ask_1" });
    await read.event("frame");
    proxy.block();
    await device.frame("peer");
    device.send({ type: "reply", id: "ask_1", outcome: "done", data: 71 });
    await device.frame("ack");
    proxy.restore();
    await expect.poll(() => read.events.length).toBe(3);
    expect(read.events.map((event) => (event.type === "frame" ? event.envelope.type : event.type))).toEqual([
      "joined",
      "accepted",
      "reply",
    ]);
    proxy.cut();
    await proxy.connected();
    await room.cancel("ask_1", "over");
  });

  it("does not keep a task for later", async () => {
    const { open, proxy, server } = await start({ limits: { grace_s: 20 } });
    const { room, read } = await open();
    const device = await joinAsDevice(around(room, server));
    await read.event("joined");
    proxy.block();
    await expect.poll(() => device.frames.filter(({ type }) => type === "peer").length).toBe(2);
    const sent = await room.send(task, patient);
    expect(sent).toMatchObject({ status: "not_handed", error: { kind: "unavailable" } });
    const back = proxy.connected();
    proxy.restore();
    await back;
    await room.cancel("ask_1", "never sent");
    await expect.poll(() => device.frames.filter(({ type }) => type === "peer").length).toBeGreaterThanOrEqual(3);
    expect(device.frames.some(({ type }) => type === "task")).toBe(false);
  });

  it("waits a moment with a task for the socket to be back", async () => {
    const { open, proxy, server } = await start();
    const { room, read } = await open();
    const device = await joinAsDevice(around(room, server));
    await read.event("joined");
    proxy.cut();
    await device.frame("peer");
    expect(await room.send(task, patient)).toEqual({ status: "handed" });
    await device.frame("task");
  });

  it("takes its seat anew after the grace, and gets the reply", async () => {
    const { open, proxy, server } = await start({ limits: { grace_s: 0.3 } });
    const { room, read } = await open();
    const device = await joinAsDevice(around(room, server));
    await read.event("joined");
    await room.send(task, patient);
    await device.frame("task");
    proxy.block();
    await expect.poll(() => device.frames.some((frame) => frame.type === "peer" && frame.state === "left")).toBe(true);
    device.send({ type: "reply", id: "ask_1", outcome: "done", data: 71 });
    await device.frame("ack");
    proxy.restore();
    await read.event("frame");
    expect(read.events.map(({ type }) => type)).toEqual(["joined", "frame"]);
    await room.cancel("ask_1", "the numbers go on");
    await device.frame("cancel");
  });

  it("finds out what became of the task when the room ended meanwhile", async () => {
    const { open, proxy, http, server } = await start({ limits: { grace_s: 0.3 } });
    const { room, read } = await open();
    const device = await joinAsDevice(around(room, server));
    await read.event("joined");
    await room.send(task, patient);
    await device.frame("task");
    proxy.block();
    http.block();
    const headers = { authorization: `Bearer ${KEY}` };
    await fetch(`${server.url}/v1/rooms/${room.label}`, { method: "DELETE", headers });
    expect(await device.closed()).toBe(4000);
    http.restore();
    expect(await read.event("closed")).toMatchObject({ error: { kind: "unavailable" }, delivered: "yes" });
  });

  it("gives up at once when the service lets nobody in again, and closes the room first", async () => {
    const { server, proxy } = await start({ limits: { grace_s: 0.3 } });
    // A service of another maker: no mesh tokens.
    const { url } = await stub((incoming, response) => {
      if (incoming.url?.endsWith("/mesh-token")) {
        json(response, 404, {});
        return;
      }
      const headers = { authorization: String(incoming.headers.authorization) };
      void fetch(`${server.url}${incoming.url}`, { method: incoming.method ?? "GET", headers }).then(async (answer) => {
        const text = await answer.text();
        response.writeHead(answer.status).end(text);
      });
    });
    const room = await providerFor(url).open(request, patient);
    const read = readRoom(room);
    expect(await room.send(task, patient)).toEqual({ status: "handed" });
    proxy.block();
    expect(await read.event("closed")).toMatchObject({ error: { kind: "unavailable" }, delivered: "no" });
    const late = await joinAsDevice(around(room, server));
    expect(await late.closed()).toBe(4401);
  });

  it("gives up at once when nothing is at stake", async () => {
    const { open, proxy, http } = await start({ limits: { grace_s: 0.3 } });
    const { read } = await open();
    proxy.block();
    http.block();
    expect(await read.event("closed")).toMatchObject({ error: { kind: "unavailable" }, delivered: "no" });
  });

  it("says that the task may have arrived when the service is gone", async () => {
    const { open, server } = await start({ limits: { grace_s: 0.3 } });
    const { room, read } = await open();
    const device = await joinAsDevice(around(room, server));
    await read.event("joined");
    await room.send(task, patient);
    await device.frame("task");
    await server.close();
    expect(await read.event("closed")).toMatchObject({ error: { code: "shutdown" } });
  });

  it("notices a service that is frozen", async () => {
    // It welcomes the mesh and then never says anything again.
    const { url, server } = await stub((incoming, response) => {
      if (incoming.method === "DELETE") return void response.writeHead(204).end();
      if (incoming.url?.endsWith("mesh-token")) return void json(response, 404, {});
      json(
        response,
        incoming.method === "POST" ? 201 : 200,
        incoming.method === "POST"
          ? opened()
          : {
              state: "closed",
              device: {},
              task: { handed: true, acked: false, replied: false },
            },
      );
    });
    const opened = () => ({
      room_id: "room_1",
      expires_at: 2_000_000_000,
      connect_url: `${url.replace("http", "ws")}/v1/connect`,
      mesh_token: "m",
      device_token: "d",
      device_token_expires_at: 2_000_000_000,
    });
    const webSockets = new WebSocketServer({ server, handleProtocols: () => "leafmesh.room.v1" });
    let connections = 0;
    let isFrozen = false;
    webSockets.on("connection", (socket) => {
      connections++;
      socket.on("message", () => {
        if (connections > 1 || isFrozen) return;
        isFrozen = true;
        socket.send(
          JSON.stringify({
            type: "welcome",
            v: 1,
            room: "room_1",
            seat: "mesh",
            resume_key: "k",
            recv: 0,
            peer: "absent",
            expires_at: 2_000_000_000,
            limits: { idle_s: 0.2, dead_s: 0.2, grace_s: 0.3 },
          }),
        );
        socket.send(JSON.stringify({ type: "peer", seq: 1, state: "joined" }));
      });
    });
    const room = await providerFor(url).open(request, patient);
    const read = readRoom(room);
    await read.event("joined");
    await room.send(task, patient);
    expect(await read.event("closed")).toMatchObject({ delivered: "maybe" });
    expect(connections).toBeGreaterThan(1);
  });
});

describe("after a restart of the mesh", () => {
  const restart = async (reply: boolean) => {
    const { provider, server, statusOf, open, proxy, http } = await start({ limits: { grace_s: 0.3 } });
    const { room, read } = await open();
    const device = await joinAsDevice(around(room, server));
    await read.event("joined");
    await room.send(task, patient);
    await device.frame("task");
    // What a dead process holds is out of reach.
    http.block();
    proxy.block();
    if (reply) device.send({ type: "reply", id: "ask_1", outcome: "done", data: 71 });
    if (reply) await device.frame("ack");
    // A provider of another process: it has nothing but the label.
    const other = providerFor(server.url);
    proxy.restore();
    return { provider, other, room, device, statusOf };
  };

  it("the reply that the service kept is fetched, and the room closed", async () => {
    const { other, room, device, statusOf } = await restart(true);
    expect(await other.recover?.(room.label, "ask_1", patient)).toEqual({
      type: "reply",
      id: "ask_1",
      outcome: "done",
      data: 71,
    });
    expect(await device.closed()).toBe(4000);
    expect(await statusOf(room)).toMatchObject({ state: "closed" });
    expect(await other.recover?.(room.label, "ask_1", patient)).toBeUndefined();
  });

  it("a device that is still at it is waited for", async () => {
    const { other, room, device } = await restart(false);
    const recovered = other.recover?.(room.label, "ask_1", patient);
    await expect.poll(() => device.frames.filter((frame) => frame.type === "peer").length).toBeGreaterThanOrEqual(2);
    device.send({ type: "reply", id: "ask_1", outcome: "failed", error: { code: "no_battery" } });
    expect(await recovered).toMatchObject({ outcome: "failed", error: { code: "no_battery" } });
  });

  it("it is not waited for longer than asked, and the device learns that it is over", async () => {
    const { other, room, device } = await restart(false);
    const waiting = new AbortController();
    const recovered = other.recover?.(room.label, "ask_1", waiting.signal);
    await expect.poll(() => device.frames.filter((frame) => frame.type === "peer").length).toBeGreaterThanOrEqual(2);
    waiting.abort();
    expect(await recovered).toBeUndefined();
    expect(await device.closed()).toBe(4000);
  });

  it("a room that nobody knows any more gives nothing, a service that is down is an error", async () => {
    const { provider, server } = await start();
    expect(await provider.recover?.("room_unknown", "ask_1", patient)).toBeUndefined();
    await server.close();
    await expect(provider.recover?.("room_1", "ask_1", patient)).rejects.toMatchObject({ kind: "unavailable" });
  });
});

describe("a test of the record", () => {
  it("opens a room and closes it", async () => {
    const { provider, server } = await start();
    expect(await provider.check(patient)).toEqual({ status: "active" });
    expect(server.service.stats().rooms).toBe(0);
  });

  it("tells a refused key", async () => {
    const { server } = await start();
    expect(await providerFor(server.url, "wrong").check(patient)).toEqual({
      status: "failing",
      reason: "The room service refused the API key (HTTP 401 unauthorized).",
    });
  });

  const room = { room_id: "room_1", expires_at: 1, mesh_token: "m", device_token: "d", device_token_expires_at: 1 };
  const error = (code: string) => ({ error: { code, message: "secret detail", temporary: false } });

  it.each([
    ["402", 402, error("plan_limit"), "failing", "plan"],
    ["403", 403, error("forbidden"), "failing", "refused the API key"],
    ["422", 422, error("invalid_request"), "failing", "does not speak the room protocol"],
    ["a page instead of the protocol", 404, { hello: 1 }, "failing", "does not speak the room protocol (HTTP 404)"],
    ["a redirect", 302, {}, "failing", "redirect"],
    ["201 without an address", 201, room, "failing", "connect_url is missing or wrong"],
    [
      "201 with an address of the machine's own",
      201,
      { ...room, connect_url: "ws://rooms.example.com" },
      "failing",
      "wss://",
    ],
    ["200 instead of 201", 200, { ...room, connect_url: "wss://x" }, "failing", "HTTP 200"],
    ["429", 429, error("rate_limited"), "readable", "asks for a pause"],
    ["500", 500, error("unavailable"), "readable", "a problem of its own"],
    ["more than it should", 201, { ...room, filler: "x".repeat(100_000) }, "failing", "more than 65536 bytes"],
  ] as const)("judges an answer of %s", async (_name, status, body, verdict, reason) => {
    const { url, requests } = await stub((_incoming, response) =>
      json(response, status, body, status === 302 ? { location: "http://127.0.0.1:1/elsewhere" } : {}),
    );
    const result = await providerFor(url).check(patient);
    expect(result).toMatchObject({ status: verdict, reason: expect.stringContaining(reason) });
    expect(JSON.stringify(result)).not.toContain("secret detail");
    expect(requests).toEqual(["POST /v1/rooms"]);
  });

  it("is failing when the service forgets the room at once", async () => {
    const { url } = await stub((incoming, response) => {
      if (incoming.method === "DELETE") json(response, 404, {});
      else json(response, 201, { ...room, connect_url: "ws://127.0.0.1:1/v1/connect" });
    });
    expect(await providerFor(url).check(patient)).toMatchObject({ status: "failing" });
  });

  it("has no verdict when nobody answers, now or in time", async () => {
    const { url, server } = await stub(() => {});
    const impatient = new AbortController();
    const slow = providerFor(url).check(impatient.signal);
    await expect
      .poll(async () => new Promise((resolve) => server.getConnections((_error, count) => resolve(count))))
      .toBe(1);
    impatient.abort();
    expect(await slow).toEqual({ status: "readable", reason: "The room service did not answer in time." });
    server.closeAllConnections();
    server.close();
    expect(await providerFor(url).check(patient)).toMatchObject({ status: "readable" });
    expect(await providerFor("https://does-not-exist.invalid").check(patient)).toEqual({
      status: "readable",
      reason: "The room service cannot be reached (ENOTFOUND).",
    });
  });
});

describe("opening", () => {
  it("passes on how long a service asks to wait", async () => {
    const { url } = await stub((_incoming, response) => {
      json(response, 429, { error: { code: "rate_limited", message: "", temporary: true, retry_after_s: 3 } });
    });
    await expect(providerFor(url).open(request, patient)).rejects.toMatchObject({ kind: "rate", retryAfterMs: 3000 });
    const { url: other } = await stub((_incoming, response) => json(response, 429, {}, { "retry-after": "7" }));
    await expect(providerFor(other).open(request, patient)).rejects.toMatchObject({ retryAfterMs: 7000 });
    const { url: nonsense } = await stub((_incoming, response) => json(response, 429, {}, { "retry-after": "soon" }));
    await expect(providerFor(nonsense).open(request, patient)).rejects.toMatchObject({ retryAfterMs: undefined });
  });

  it("asks once more, for the same room, when the connection broke", async () => {
    const keys: unknown[] = [];
    const { url } = await stub((incoming, response) => {
      keys.push(incoming.headers["idempotency-key"]);
      if (keys.length === 1) incoming.socket.destroy();
      else json(response, 402, {});
    });
    await expect(providerFor(url).open(request, patient)).rejects.toMatchObject({ kind: "plan_limit" });
    expect(keys).toEqual([expect.stringMatching(/^open_/), keys[0]]);
  });

  it("closes the room again when the mesh cannot take its seat", async () => {
    const deleted = Promise.withResolvers<string | undefined>();
    const { url } = await stub((incoming, response) => {
      if (incoming.method === "DELETE") {
        deleted.resolve(incoming.url);
        response.writeHead(204).end();
        return;
      }
      json(response, 201, {
        room_id: "room_1",
        expires_at: 1,
        mesh_token: "m",
        device_token: "d",
        device_token_expires_at: 1,
        connect_url: "ws://127.0.0.1:1/v1/connect",
      });
    });
    await expect(providerFor(url).open(request, patient)).rejects.toMatchObject({
      name: "RoomError",
      kind: "unavailable",
    });
    expect(await deleted.promise).toBe("/v1/rooms/room_1");
  });

  it.each([
    ["welcomes the mesh to another room", { type: "welcome", room: "room_2" }],
    ["welcomes the mesh to the device's seat", { type: "welcome", seat: "device" }],
    ["speaks before it welcomes", { type: "peer", seq: 2, state: "joined" }],
    ["says something that is no frame", { type: "nonsense" }],
  ])("does not go on with a service that %s", async (_name, frame) => {
    const { url, server } = await stub((_incoming, response) => {
      json(response, 201, {
        room_id: "room_1",
        expires_at: 1,
        mesh_token: "m",
        device_token: "d",
        device_token_expires_at: 1,
        connect_url: `${url.replace("http", "ws")}/v1/connect`,
      });
    });
    const webSockets = new WebSocketServer({ server, handleProtocols: () => "leafmesh.room.v1" });
    const closed = new Promise<number>((resolve) => {
      webSockets.on("connection", (socket) => {
        const welcome = { v: 1, room: "room_1", seat: "mesh", resume_key: "k", recv: 0, peer: "absent", expires_at: 1 };
        socket.on("message", () => socket.send(JSON.stringify({ ...welcome, limits: {}, ...frame })));
        socket.on("close", resolve);
      });
    });
    await expect(providerFor(url).open(request, patient)).rejects.toMatchObject({ kind: "mismatch", code: "4400" });
    expect(await closed).toBe(4400);
  });

  it("stops when it is told to", async () => {
    const { url } = await stub(() => {});
    await expect(providerFor(url).open(request, AbortSignal.abort())).rejects.toMatchObject({ kind: "unavailable" });
  });
});
