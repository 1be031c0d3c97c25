/** 14. A ring that is delivered after its room closed, with the device kit and a real mesh on either store. */
import { connectDirect, createDevice, type DeviceEvent, directAddress } from "@leafmesh/device";
import { postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, startObedientModel } from "../support/model.ts";
import { killAll } from "../support/process.ts";
import { startSeveral } from "../support/several-meshes.ts";
import { until } from "../support/until.ts";

const DEVICE = { id: "phone-7", push_token: "token-of-phone-7" };
let model: ObedientModel;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  model = await startObedientModel();
});
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await killAll();
  await model?.close();
});

const yaml = () => `name: late-rings
${model.yaml}connections:
  phones: { provider: direct }
agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { connection: phones }
`;

const stores: Readonly<Record<string, () => Promise<RunningMesh>>> = {
  async embedded() {
    const mesh = await startMesh({ yaml: yaml(), folder: newFolder() });
    closing.push(() => mesh.stop());
    return mesh;
  },
  async PostgreSQL() {
    const server = await startPostgres();
    closing.push(() => server.stop());
    const meshes = await startSeveral(server, yaml());
    closing.push(() => meshes.close());
    return meshes.start();
  },
};

/** A device that is slow to hear: its rings are kept until the test lets them through. */
async function slowDevice(mesh: RunningMesh) {
  const acted: string[] = [];
  const events: DeviceEvent[] = [];
  const rings: unknown[] = [];
  const device = createDevice({
    id: DEVICE.id,
    handlers: {
      "battery.read": (task) => {
        acted.push(task.ask);
        return { level: 71 };
      },
    },
    approve: () => true,
    onEvent: (event) => events.push(event),
  });
  const direct = connectDirect({
    url: directAddress(mesh.url),
    id: DEVICE.id,
    token: DEVICE.push_token,
    onRing: (ring) => rings.push(ring),
  });
  closing.push(async () => {
    direct.close();
    await device.close();
  });
  await direct.ready();
  return { device, acted, events, ring: () => until("the ring", async () => rings.at(-1)) };
}

const kinds = postgresAvailable() ? Object.keys(stores) : ["embedded"];

describe.each(kinds)("guarantees of late rings: %s", (kind) => {
  it("14. a ring delivered after the room closed: the device is told that the task is over, and does nothing", async () => {
    const mesh = await stores[kind]?.();
    if (!mesh) throw new Error(`there is no store ${kind}`);
    const phone = await slowDevice(mesh);
    const opened = await mesh.call<{ session_id: string }>("POST", "/api/sessions", { devices: [DEVICE] });
    const sessionId = opened.body.session_id;
    const query = callFor({ device: DEVICE.id, action: "battery.read", inputs: {} });
    await mesh.call("POST", `/api/sessions/${sessionId}/query`, { query });
    const ring = await phone.ring();
    const [asked] = await mesh.asks(sessionId);
    expect((await mesh.call("POST", `/api/asks/${asked?.ask_id}/cancel`)).status).toBe(202);
    const settled = await until("the ask's outcome", async () => {
      const [ask] = await mesh.asks(sessionId);
      return ask?.state === "settled" ? ask : undefined;
    });
    expect(settled.result).toMatchObject({
      success: false,
      outcome: expect.stringMatching(/^(not_joined|unreachable)$/),
    });

    const disposition = await phone.device.handleRing(ring, "late");
    expect(disposition).toMatchObject({ status: "not_joined", reason: "over" });
    expect(phone.acted).toEqual([]);
    expect(phone.events.map(({ type }) => type)).not.toContain("task");
    expect(await mesh.asks(sessionId)).toEqual([settled]);
  });
});
