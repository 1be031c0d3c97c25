import { connect, type Socket } from "node:net";
import { type OpenedRoom, Secret } from "@leafmesh/protocol";
import { afterEach, describe, expect, it } from "vitest";
import { TestSocket } from "./conformance/test-socket.ts";
import { Workbench } from "./conformance/workbench.ts";
import { connectUrlOf, type RoomServer, type ServeRoomsOptions, serveRooms } from "./serve.ts";

const key = new Secret("a-key-for-the-room-service-tests");
const running: RoomServer[] = [];

async function start(options: Partial<ServeRoomsOptions> = {}) {
  const server = await serveRooms({ host: "127.0.0.1", port: 0, apiKeys: [key], ...options });
  running.push(server);
  return { server, bench: new Workbench(server.url, key) };
}

afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.close()));
});

/** The HTTP status of an upgrade that is written by hand. */
function upgradeStatus(url: string, path: string, headers: Readonly<Record<string, string>>): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect(Number(new URL(url).port), "127.0.0.1", () => {
      const lines = Object.entries({ host: "x", connection: "Upgrade", upgrade: "websocket", ...headers });
      socket.write(`GET ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`);
    });
    let answer = "";
    socket.on("data", (data) => {
      answer += data.toString();
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
  });
}

const handshake = {
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  "sec-websocket-version": "13",
  "sec-websocket-protocol": "leafmesh.room.v1",
};

describe("serveRooms", () => {
  it("tells clients the public address when it has one", async () => {
    const { bench } = await start({ publicUrl: "https://rooms.example.com/base/" });
    expect((await bench.open()).connect_url).toBe("wss://rooms.example.com/base/v1/connect");
    expect(connectUrlOf("http://[::1]:80")).toBe("ws://[::1]:80/v1/connect");
  });

  it("answers a health check with what it holds", async () => {
    const { server, bench } = await start();
    await bench.join(await bench.open(), "mesh");
    const answer = await fetch(`${server.url}/healthz`);
    expect(await answer.json()).toEqual({ status: "ok", rooms: 1, connections: 1 });
  });

  it("says goodbye to every seat, and to a socket without one, when it stops", async () => {
    const { server, bench } = await start();
    const room = await bench.open();
    const { mesh, device } = await bench.joinBoth(room);
    const silent = await TestSocket.open(room.connect_url);
    const startMs = performance.now();
    await Promise.all([server.close(), server.close()]);
    expect(performance.now() - startMs).toBeLessThan(3000);
    for (const { socket } of [mesh, device]) {
      expect((await socket.closed()).code).toBe(4503);
      expect(socket.received.at(-1)).toEqual({ type: "closing", reason: "shutdown" });
    }
    expect((await silent.closed()).code).toBe(4503);
    await expect(fetch(`${server.url}/healthz`)).rejects.toThrow();
  });

  it("rejects when its address is taken", async () => {
    const { server } = await start();
    await expect(serveRooms({ host: "127.0.0.1", port: Number(new URL(server.url).port) })).rejects.toThrow(
      "EADDRINUSE",
    );
  });

  it("cuts half requests, and serves others meanwhile", async () => {
    const { server, bench } = await start({ bounds: { requestHeadMs: 300, requestMs: 600 } });
    const port = Number(new URL(server.url).port);
    const head = "POST /v1/rooms HTTP/1.1\r\nhost: x\r\n";
    const authorized = `${head}authorization: Bearer ${key.reveal()}\r\ncontent-length: 20\r\n\r\n{`;
    const cut = [`${head}x-slow: `, authorized].map(
      (text) =>
        new Promise<void>((resolve) => {
          const socket = connect(port, "127.0.0.1", () => socket.write(text));
          socket.on("close", () => resolve());
          socket.on("error", () => {});
          socket.resume();
        }),
    );
    await bench.open();
    await Promise.all(cut);
  });
});

describe("an upgrade", () => {
  it("to another path is not ours", async () => {
    const { server } = await start();
    expect(await upgradeStatus(server.url, "/elsewhere", handshake)).toMatch(/^HTTP\/1\.1 404 /);
  });

  it("from an origin that is not listed is refused, a listed one and none are not", async () => {
    const { server } = await start({ allowedOrigins: ["https://app.example.com"] });
    const refused = await upgradeStatus(server.url, "/v1/connect", { ...handshake, origin: "https://evil.example" });
    expect(refused).toMatch(/^HTTP\/1\.1 403 /);
    expect(refused).toContain('"code":"forbidden"');
    const { rooms } = { rooms: new Workbench(server.url, key) };
    await rooms.join(await rooms.open(), "mesh");
  });

  it("counts per client address", async () => {
    const { server } = await start({
      bounds: { connectsBurst: 2, connectsPerSecond: 0.1 },
      clientAddress: (request) => String(request.headers["x-forwarded-for"]),
    });
    const from = (address: string) =>
      upgradeStatus(server.url, "/v1/connect", {
        ...handshake,
        "sec-websocket-key": "bad",
        "x-forwarded-for": address,
      });
    expect(await from("192.0.2.1")).toMatch(/^HTTP\/1\.1 400 /);
    expect(await from("192.0.2.1")).toMatch(/^HTTP\/1\.1 400 /);
    const third = await from("192.0.2.1");
    expect(third).toMatch(/^HTTP\/1\.1 429 /);
    expect(third).toMatch(/retry-after: 10\r\n/);
    expect(await from("192.0.2.2")).toMatch(/^HTTP\/1\.1 400 /);
  });

  it("waits in a bounded queue", async () => {
    const { server, bench } = await start({ bounds: { pendingConnections: 2 } });
    const room: OpenedRoom = await bench.open();
    const waiting = [await TestSocket.open(room.connect_url), await TestSocket.open(room.connect_url)];
    expect(await upgradeStatus(server.url, "/v1/connect", handshake)).toMatch(/^HTTP\/1\.1 503 /);
    await waiting[0]?.drop();
    await expect.poll(() => server.service.stats().connections).toBe(1);
    await bench.join(room, "mesh");
    await bench.join(room, "device");
    await waiting[1]?.drop();
  });
});
