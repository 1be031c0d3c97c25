/** Who is asked, who may answer, and what they may bring. */
import { createServer } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { allModelRequests, callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess } from "../support/process.ts";
import { type Transport, transports } from "../support/transports.ts";

const READ = { action: "battery.read", inputs: {} };

describe.each(transports)("over $name", ({ open }) => {
  let transport: Transport;
  let model: ObedientModel;
  let mesh: RunningMesh;
  const devices: RunningProcess[] = [];

  const start = async (...options: Parameters<Transport["start"]>[1][]): Promise<RunningProcess[]> => {
    const started = await Promise.all(options.map((each) => transport.start(mesh.url, each)));
    devices.push(...started);
    return started;
  };

  beforeAll(async () => {
    [transport, model] = await Promise.all([open(), startObedientModel()]);
    const port = await freePort();
    mesh = await startMesh({
      port,
      yaml: `name: devices
${model.yaml}${transport.connections}agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { ${transport.block} }
server: { public_url: "http://127.0.0.1:${port}" }
`,
    });
  });

  afterEach(async () => {
    await Promise.all(devices.splice(0).map((device) => device.stop()));
  });

  afterAll(async () => {
    await mesh?.stop();
    await killAll();
    await Promise.all([model?.close(), transport?.close()]);
  });

  it("two devices, one asked: only that one is rung", async () => {
    const [phone, tablet] = await start({ id: "phone-7" }, { id: "tablet-2", args: ["--battery", "12"] });
    const reply = await mesh.request({
      message: callFor({ ...READ, device: "tablet-2" }),
      devices: [transport.device("phone-7"), transport.device("tablet-2")],
    });
    expect(resultsIn(reply.reply)).toMatchObject([{ outcome: "done", device: "tablet-2", data: { level: 12 } }]);
    expect(tablet?.lines.filter(({ event }) => event === "acted")).toHaveLength(1);
    expect(phone?.lines.filter(({ event }) => event === "ring")).toHaveLength(0);
  });

  it("two devices asked in one turn: each answer stands where it was asked for", async () => {
    await start({ id: "phone-7", behave: "late=800" }, { id: "tablet-2", args: ["--battery", "12"] });
    const reply = await mesh.request({
      message: callFor({ ...READ, device: "phone-7" }, { ...READ, device: "tablet-2" }),
      devices: [transport.device("phone-7"), transport.device("tablet-2")],
    });
    expect(resultsIn(reply.reply)).toMatchObject([
      { outcome: "done", device: "phone-7", data: { level: 71 } },
      { outcome: "done", device: "tablet-2", data: { level: 12 } },
    ]);
  });

  it("a later message finds the conversation's devices again, and a repeated id replaces its token", async () => {
    await start({});
    const first = await mesh.request({
      message: "hello",
      device: { ...transport.device(), push_token: "leafmesh/nobody/connect" },
    });
    const second = await mesh.request({
      message: callFor(READ),
      session_id: first.session_id,
      device: transport.device(),
    });
    expect(resultsIn(second.reply)).toMatchObject([{ outcome: "done" }]);
    const third = await mesh.request({ message: callFor(READ), session_id: first.session_id });
    expect(resultsIn(third.reply)).toMatchObject([{ outcome: "done" }]);
    const fourth = await mesh.request({ message: callFor(READ), session_id: first.session_id, devices: [] });
    expect(resultsIn(fourth.reply)).toMatchObject([{ outcome: "refused", reason: "no_such_device" }]);
  });

  it("a 17th device is refused, and nothing of the request is stored", async () => {
    const many = Array.from({ length: 17 }, (_, index) => transport.device(`d${index}`));
    const { status, body } = await mesh.call<{ error: { code: string; message: string } }>(
      "POST",
      "/api/mesh/request",
      {
        message: "hello",
        devices: many,
      },
    );
    expect(status).toBe(400);
    expect(body.error.message).toMatch(/16/);
  });

  it("a photo reaches the model as an image and not the transcript", async () => {
    await start({});
    const reply = await mesh.request({
      message: callFor({ action: "photo.take", inputs: {} }),
      device: transport.device(),
    });
    expect(reply.reply).toMatch(/ IMAGES 1$/);
    expect(resultsIn(reply.reply)).toMatchObject([{ outcome: "done" }]);
    const shown = allModelRequests.findLast((body) => body.includes("image_url"));
    expect(shown).toMatch(/data:image\/png;base64,iVBORw0KGgo/);
    const history = JSON.stringify(await mesh.history(reply.session_id));
    expect(history).not.toContain("iVBORw0KGgo");
    expect(JSON.stringify(await mesh.asks(reply.session_id))).not.toContain("iVBORw0KGgo");
  });

  it("a device with the right id and another token is not the one that is rung", async () => {
    await start(transport.name === "Mosquitto" ? { id: "intruder" } : { id: "phone-7", token: "guessed-token" });
    const reply = await mesh.request({ message: callFor(READ), device: transport.device() });
    expect(resultsIn(reply.reply)).toMatchObject([{ outcome: "not_joined", reason: "device_offline" }]);
    expect(devices[0]?.lines.map(({ event }) => event)).not.toContain("ring");
  });
});

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === "object" ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}
