/** Reasons that lie with a provider: wrong keys, used-up plans, services that are down, tokens of the wrong shape. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { AskResult } from "@leafmesh/protocol";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDevice } from "../support/device.ts";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { type Broker, startBroker } from "../support/mosquitto.ts";
import { killAll, type RunningProcess, startLeafmesh } from "../support/process.ts";
import { until } from "../support/until.ts";

const READ = callFor({ action: "battery.read", inputs: {} });
const DEVICE = { id: "phone-7", push_token: "token-of-phone-7" };
const ROOM_KEY = "key-of-the-room-service";

let model: ObedientModel;
const processes: RunningProcess[] = [];
const servers: Server[] = [];

beforeAll(async () => {
  model = await startObedientModel();
});

afterEach(async () => {
  await Promise.all(processes.splice(0).map((process) => process.stop()));
  for (const server of servers.splice(0)) server.closeAllConnections();
});

afterAll(async () => {
  await killAll();
  await model.close();
});

function keep<Process extends RunningProcess>(process: Process): Process {
  processes.push(process);
  return process;
}

function yamlFor(connections: string, block: string): string {
  return `name: providers
${model.yaml}connections:
  phones: { provider: direct }
${connections}agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { ${block} }
`;
}

async function ask(mesh: RunningMesh, device: object = DEVICE): Promise<AskResult> {
  const reply = await mesh.request({ message: READ, device });
  expect(reply.status).toBe("succeeded");
  return resultsIn(reply.reply)[0] as AskResult;
}

describe("a room service of its own (leafmesh rooms serve)", () => {
  const serve = async (args: readonly string[] = []): Promise<{ service: RunningProcess; url: string }> => {
    const service = keep(
      startLeafmesh(["rooms", "serve", "--port", "0", "--json", ...args], { LEAFMESH_ROOM_KEYS: ROOM_KEY }),
    );
    const ready = await service.waitFor("ready");
    return { service, url: String(ready.url) };
  };
  const rooms = (url: string, key = ROOM_KEY): string =>
    yamlFor(`  rooms: { provider: room, url: "${url}", api_key: "${key}" }\n`, "connection: phones, room: rooms");

  it("carries an ask from the ring to the answer", async () => {
    const { url } = await serve();
    const mesh = keep(await startMesh({ yaml: rooms(url) }));
    keep(await startDevice(mesh.url));
    expect(await ask(mesh)).toMatchObject({ outcome: "done", data: { level: 71 } });
  });

  it("refuses a wrong key: room_key_refused, and nobody is rung", async () => {
    const { url } = await serve();
    const mesh = keep(await startMesh({ yaml: rooms(url, "another-key") }));
    const device = keep(await startDevice(mesh.url));
    expect(await ask(mesh)).toMatchObject({ outcome: "unreachable", reason: "room_key_refused" });
    expect(device.lines.map(({ event }) => event)).not.toContain("ring");
    expect(mesh.output()).toMatch(/connection does not work.*rooms/);
  });

  it("killed under the task: it may have happened", async () => {
    const { service, url } = await serve();
    const yaml = rooms(url).replace("room: rooms", "room: rooms, reply_timeout: 5");
    const mesh = keep(await startMesh({ yaml }));
    const device = keep(await startDevice(mesh.url, { behave: "late=20000" }));
    void device.waitFor("accepted").then(() => service.kill("SIGKILL"));
    const result = await ask(mesh);
    expect(result).toMatchObject({ outcome: "failed", may_have_happened: true });
    // Until the reply wait is over the service might come back with the answer.
    expect(result.reason).toMatch(/^(room_closed|connection_lost|no_answer)$/);
  });

  it("mesh killed while the device works: the next start fetches the answer that the room kept", async () => {
    const { url } = await serve();
    const folder = newFolder();
    const first = keep(await startMesh({ yaml: rooms(url), folder }));
    const device = keep(await startDevice(first.url, { behave: "late=2500" }));
    const { body } = await first.call<{ session_id: string }>("POST", "/api/sessions", { device: DEVICE });
    await first.call("POST", `/api/sessions/${body.session_id}/query`, { query: READ });
    await device.waitFor("accepted");
    first.kill("SIGKILL");
    await first.exited;
    await device.waitFor("replied");

    const second = keep(await startMesh({ yaml: rooms(url), folder }));
    const result = await until("the outcome", async () => (await second.asks(body.session_id))[0]?.result);
    expect(result).toMatchObject({ outcome: "done", data: { level: 71 } });
    const history = await until("the end of the run", async () => {
      const messages = await second.history(body.session_id);
      return messages.length === 4 ? messages : undefined;
    });
    expect(history.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(device.lines.filter(({ event }) => event === "acted")).toHaveLength(1);
  });

  it.each([
    [402, { code: "plan_limit", message: "used up", temporary: false }, "room_plan_limit"],
    [403, { code: "forbidden", message: "no", temporary: false }, "room_key_refused"],
    [503, { code: "unavailable", message: "later", temporary: true }, "room_unavailable"],
    [200, { surprise: true }, "room_unavailable"],
  ] as const)("that answers %i: %j reads %s", async (status, error, reason) => {
    const url = await answering(status, JSON.stringify({ error }));
    const mesh = keep(await startMesh({ yaml: rooms(url) }));
    expect(await ask(mesh)).toMatchObject({ outcome: "unreachable", reason });
  });
});

describe("an MQTT broker as notifier", () => {
  let broker: Broker;

  beforeAll(async () => {
    broker = await startBroker({ meshPassword: "mesh-broker-password", devices: ["phone-7"] });
  });

  afterAll(async () => {
    await broker.close();
  });

  const yaml = (password: string, url = broker.url): string =>
    yamlFor(
      `  broker: { provider: mqtt, url: "${url}", username: mesh, password: "${password}", room_topic_prefix: leafmesh }\n`,
      "connection: broker",
    );

  it("with a wrong password: notifier_key_refused", async () => {
    const mesh = keep(await startMesh({ yaml: yaml("wrong") }));
    const result = await ask(mesh, { id: "phone-7", push_token: "leafmesh/phone-7/phone-7/connect" });
    expect(result).toMatchObject({ outcome: "unreachable", reason: "notifier_key_refused" });
  });

  it("that is down: notifier_unavailable, within the join wait", async () => {
    const mesh = keep(
      await startMesh({
        yaml: yaml("any", "mqtt://127.0.0.1:9").replace("connection: broker", "connection: broker, join_timeout: 3"),
      }),
    );
    const result = await ask(mesh, { id: "phone-7", push_token: "leafmesh/phone-7/phone-7/connect" });
    expect(result).toMatchObject({ outcome: "unreachable", reason: "notifier_unavailable" });
  });

  it.each(["leafmesh/+/connect", "#", "$SYS/x", "a//b", "a\u0000b"])(
    "and a token that is no topic of one device (%j): bad_token, and nothing leaves the mesh",
    async (token) => {
      const mesh = keep(await startMesh({ yaml: yaml(broker.meshPassword) }));
      const result = await ask(mesh, { id: "phone-7", push_token: token });
      expect(result).toMatchObject({ outcome: "unreachable", reason: "bad_token" });
    },
  );
});

/** A service that answers everything alike. */
function answering(status: number, body: string): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(status, { "content-type": "application/json", "leafmesh-room-version": "1" });
    response.end(body);
  });
  servers.push(server);
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  });
}
