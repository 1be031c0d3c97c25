import { spawn } from "node:child_process";
import { once } from "node:events";
import { Secret } from "@leafmesh/protocol";
import { describe, expect, it, onTestFinished } from "vitest";
import { encodeFrame, OPCODE, RawWebSocket } from "../testing/raw-web-socket.ts";
import { deviceFrame, taskFrame, Workbench } from "./conformance/workbench.ts";
import { type ServeRoomsOptions, serveRooms } from "./serve.ts";

const key = new Secret("a-key-for-the-room-service-tests");

async function start(options: Partial<ServeRoomsOptions> = {}) {
  const server = await serveRooms({ host: "127.0.0.1", port: 0, apiKeys: [key], ...options });
  const bench = new Workbench(server.url, key);
  onTestFinished(async () => {
    await bench.cleanUp();
    await server.close();
  });
  return { server, bench };
}

/** A room with the mesh seated and a device that may break the rules. */
async function withRawDevice(options: Partial<ServeRoomsOptions> = {}) {
  const { bench, server } = await start(options);
  const room = await bench.open();
  const mesh = await bench.join(room, "mesh");
  const device = await RawWebSocket.open(room.connect_url);
  onTestFinished(() => device.destroy());
  device.text({ type: "hello", v: 1, token: room.device_token });
  await mesh.socket.peer("joined");
  return { bench, server, room, mesh: mesh.socket, device };
}

describe("a client that breaks WebSocket", () => {
  const text = JSON.stringify({ type: "ping" });
  const oneByteFragments = Buffer.concat([
    encodeFrame(OPCODE.text, "{", { fin: false }),
    ...Array.from({ length: 9999 }, () => encodeFrame(OPCODE.continuation, " ", { fin: false })),
  ]);

  it.each([
    ["an unmasked frame", encodeFrame(OPCODE.text, text, { mask: false }), 1002],
    ["a reserved bit, as a compressed frame has it", encodeFrame(OPCODE.text, text, { reserved: 0x40 }), 1002],
    ["a reserved opcode", encodeFrame(0xb, "x"), 1002],
    ["bad UTF-8", encodeFrame(OPCODE.text, Buffer.from([0xc3, 0x28])), 1007],
    ["a fragmented ping", encodeFrame(OPCODE.ping, "x", { fin: false }), 1002],
    ["a ping that is too long", encodeFrame(OPCODE.ping, Buffer.alloc(126)), 1002],
    ["a continuation of nothing", encodeFrame(OPCODE.continuation, "x"), 1002],
    ["a close code that must not be sent", encodeFrame(OPCODE.close, Buffer.from([3, 237])), 1002],
    ["a message of 2 MiB", encodeFrame(OPCODE.text, Buffer.alloc(2 << 20, 97)), 1009],
    ["a message of 10,000 fragments", oneByteFragments, 1008],
  ])("by %s is closed and its seat is over", async (_name, bytes, code) => {
    const { mesh, device, bench } = await withRawDevice();
    device.write(bytes);
    expect(await device.closeCode()).toBe(code);
    const reason = code === 1009 ? "too_large" : "protocol";
    expect(await mesh.peer("left")).toMatchObject({ reason, handed_seq: 0 });
    await bench.join(await bench.open(), "mesh");
  });

  it("is not offered compression", async () => {
    const { bench } = await start();
    const room = await bench.open();
    const socket = await RawWebSocket.open(room.connect_url, {
      "sec-websocket-extensions": "permessage-deflate; client_max_window_bits",
    });
    expect(socket.head).toMatch(/^HTTP\/1\.1 101 /);
    expect(socket.head.toLowerCase()).not.toContain("sec-websocket-extensions");
    socket.destroy();
  });
});

describe("a client that floods", () => {
  it.each([
    ["pings of the WebSocket", encodeFrame(OPCODE.ping, "x")],
    ["pongs that nobody asked for", encodeFrame(OPCODE.pong, "x")],
    ["pings of the protocol", encodeFrame(OPCODE.text, JSON.stringify({ type: "ping" }))],
    ["extensions", encodeFrame(OPCODE.text, JSON.stringify({ type: "x-noise" }))],
    ["repeated acknowledgements", encodeFrame(OPCODE.text, JSON.stringify({ type: "ack", seq: 0 }))],
  ])("with %s is closed for its rate and may come back", async (_name, bytes) => {
    const { mesh, device } = await withRawDevice();
    device.write(Buffer.concat(Array.from({ length: 200 }, () => bytes)));
    expect(await device.closeCode()).toBe(4529);
    await mesh.peer("away");
  });

  it("is answered its pings while they are within the rate", async () => {
    const { device } = await withRawDevice();
    device.write(encodeFrame(OPCODE.ping, "hello"));
    expect((await device.next(OPCODE.pong)).payload.toString()).toBe("hello");
  });
});

describe("before its hello a client", () => {
  it.each([
    ["another version", { type: "hello", v: 2, token: "t" }, 4426],
    ["neither token nor resume", { type: "hello", v: 1 }, 4400],
    ["a ping", { type: "ping" }, 4400],
    ["a task", taskFrame(1), 4400],
    ["a resume key of no room", { type: "hello", v: 1, resume: { key: "room_x.key", recv: 0 } }, 4404],
    ["a resume key without a room", { type: "hello", v: 1, resume: { key: "", recv: 0 } }, 4404],
  ])("that sends %s is closed", async (_name, frame, code) => {
    const { bench } = await start();
    const socket = await bench.connect(await bench.open());
    socket.send(frame);
    expect((await socket.closed()).code).toBe(code);
  });

  it("may send what follows right behind it", async () => {
    const { bench } = await start();
    const room = await bench.open();
    const mesh = await bench.connect(room);
    mesh.hello({ token: room.mesh_token });
    mesh.send(taskFrame(1));
    await mesh.next("ack", ({ seq }) => seq === 1);
    const { socket } = await bench.join(room, "device");
    await socket.next("task");
  });

  it("gets one answer for a token that is not genuine and for a room that is gone", async () => {
    const { bench } = await start();
    const [open, gone] = [await bench.open(), await bench.open()];
    await bench.delete(gone.room_id);
    const answers = [];
    for (const token of [gone.device_token, "forged"]) {
      const socket = await bench.connect(open);
      socket.hello({ token });
      answers.push(await socket.closed());
    }
    expect(answers).toEqual([
      { code: 4401, reason: "token refused" },
      { code: 4401, reason: "token refused" },
    ]);
  });
});

describe("a client that does not read", () => {
  it("is not buffered for without end, even when it acknowledges blindly", async () => {
    const { bench } = await start({ limits: { rate: 1e6, burst: 1e6, idle_s: 60 } });
    const room = await bench.open();
    const mesh = await bench.join(room, "mesh", { alive: false });
    const device = await bench.join(room, "device");
    mesh.socket.send(taskFrame(1));
    await device.socket.next("task");
    mesh.socket.stopReading();
    const pad = "x".repeat(60_000);
    let sent = 0;
    const away = device.socket.peer("away", 20_000);
    const flood = async (): Promise<void> => {
      for (let seq = 1; seq <= 2000; seq++) {
        device.socket.send(deviceFrame("progress", seq, { pad }));
        await device.socket.next("ack", (ack) => ack.seq === seq);
        sent = seq;
        mesh.socket.send({ type: "ack", seq: seq + 1 });
      }
    };
    await Promise.race([away, flood()]);
    await away;
    mesh.socket.goOnReading();
    expect((await mesh.socket.closed()).code).toBe(4513);
    // What the two kernels hold for a loopback socket is a few megabytes; without a bound all 120 MB would be taken.
    expect(sent * pad.length).toBeLessThan(40_000_000);
  }, 30_000);

  it("holds no more than its buffer in the room", async () => {
    const { bench } = await start({ limits: { idle_s: 60 } });
    const room = await bench.open();
    const mesh = await bench.join(room, "mesh", { alive: false });
    const device = await bench.join(room, "device");
    mesh.socket.send(taskFrame(1));
    await device.socket.next("task");
    const pad = "x".repeat(60_000);
    for (let seq = 1; seq <= 12; seq++) device.socket.send(deviceFrame("progress", seq, { pad }));
    await mesh.socket.next("progress", (frame) => frame.seq >= 6);
    const acked = device.socket.received.filter(({ type }) => type === "ack").length;
    expect(acked * pad.length).toBeLessThanOrEqual(256 * 1024 + 2 * 64 * 1024);
  });
});

describe("a device whose process is frozen", () => {
  it("is away within the announced time, although its kernel still acknowledges", async () => {
    const { bench } = await start({ limits: { idle_s: 0.3, dead_s: 0.3, grace_s: 30 } });
    const room = await bench.open();
    const mesh = await bench.join(room, "mesh");
    const program = `
      import { WebSocket } from "ws";
      const socket = new WebSocket(${JSON.stringify(room.connect_url)}, "leafmesh.room.v1");
      socket.on("open", () => socket.send(JSON.stringify({ type: "hello", v: 1, token: ${JSON.stringify(room.device_token)} })));
      socket.on("message", (data) => {
        const { type, n } = JSON.parse(data);
        if (type === "ping") socket.send(JSON.stringify({ type: "pong", n }));
      });
      socket.on("close", () => console.log("closed"));
    `;
    const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
      cwd: new URL("..", import.meta.url),
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    await mesh.socket.peer("joined", 10_000);
    // Long enough that a device that did not answer would have been given up.
    for (let ping = 0; ping < 3; ping++) await mesh.socket.next("ping");
    child.kill("SIGSTOP");
    const startMs = performance.now();
    await mesh.socket.peer("away", 3000);
    expect(performance.now() - startMs).toBeGreaterThan(250);
    child.kill("SIGCONT");
    const [said] = await once(child.stdout, "data");
    expect(String(said)).toContain("closed");
  }, 20_000);
});
