/** SIGTERM under a mesh that has much under way. Prints how long it took. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type KitDevice, startKitDevice } from "../support/kit-device.ts";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess } from "../support/process.ts";
import { openRawStream } from "../support/raw-stream.ts";
import { until } from "../support/until.ts";

const READ = callFor({ action: "battery.read", inputs: {} });
const DEVICE = { id: "phone-7", push_token: "token-of-phone-7" };
const COUNT = 200;
const GRACE_S = 2;
/** Everything on this machine at once: mesh, model and a device with so many rooms. */
const OPENED_WITHIN_MS = 90_000;

describe("R-31 a graceful stop", () => {
  let model: ObedientModel;
  const running: RunningProcess[] = [];
  const devices: KitDevice[] = [];

  beforeAll(async () => {
    model = await startObedientModel();
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((process) => process.stop()));
    await Promise.all(devices.splice(0).map((device) => device.close()));
  });
  afterAll(async () => {
    await killAll();
    await model?.close();
  });

  const start = async (folder: string, ...args: string[]): Promise<RunningMesh> => {
    const yaml = `name: stopping
${model.yaml}limits: { max_concurrent_runs: ${COUNT} }
connections:
  phones: { provider: direct }
agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    # No ask may run out of time while ${COUNT} of them open on a busy machine: this is about the stop.
    device: { connection: phones, join_timeout: 600, reply_timeout: 600 }
`;
    const mesh = await startMesh({ yaml, folder, args: ["--log-level", "warn", ...args] });
    running.push(mesh);
    return mesh;
  };
  /** A device that takes so many tasks at once and never answers. */
  const startHolder = async (mesh: RunningMesh, maxAsks: number): Promise<void> => {
    const handler = () => new Promise<never>(() => {});
    devices.push(await startKitDevice(mesh.url, { id: DEVICE.id, token: DEVICE.push_token, maxAsks, handler }));
  };
  /** A session whose ask its device holds, and never answers. */
  const openAsk = async (mesh: RunningMesh): Promise<string> => {
    const { body } = await mesh.call<{ session_id: string }>("POST", "/api/sessions", { device: DEVICE });
    await mesh.call("POST", `/api/sessions/${body.session_id}/query`, { query: READ });
    return body.session_id;
  };

  it(`ends ${COUNT} open asks and ${COUNT} streams honestly, and exits with 0`, async () => {
    const folder = newFolder();
    const mesh = await start(folder, "--grace", `${GRACE_S}`);
    await startHolder(mesh, COUNT);
    const sessions = await Promise.all(Array.from({ length: COUNT }, () => openAsk(mesh)));
    const streams = sessions.map((sessionId) => openRawStream(mesh.port, `/api/sessions/${sessionId}/stream`));
    await until(
      "every task to be with its device",
      async () => {
        const sent = streams.filter((stream) => stream.events().some(({ text }) => text.includes('"ask.sent"')));
        return sent.length === COUNT || undefined;
      },
      OPENED_WITHIN_MS,
    );

    const stoppedAt = performance.now();
    mesh.kill("SIGTERM");
    const refused = await until("a refusal of new work", async () => {
      const answer = await mesh.call("POST", "/api/sessions", {}).catch(() => undefined);
      return answer && answer.status < 300 ? undefined : (answer ?? { status: 503 });
    });
    expect(refused.status).toBe(503);
    expect(await mesh.exited).toBe(0);
    const tookMs = performance.now() - stoppedAt;
    await Promise.all(streams.map(({ closed }) => closed));
    expect(tookMs).toBeLessThan((GRACE_S + 8) * 1000);

    const again = await start(folder);
    const outcomes = await Promise.all(
      sessions.map(async (sessionId) => {
        const [view, ...more] = await again.asks(sessionId);
        expect(more).toEqual([]);
        expect(view?.timeline.filter(({ type }) => type === "ask.settled")).toHaveLength(1);
        return view?.result;
      }),
    );
    for (const result of outcomes)
      expect(result).toMatchObject({ outcome: "failed", reason: "mesh_restarted", may_have_happened: true });
    const inTime = streams.filter((stream) => stream.events().some(({ text }) => text.includes('"ask.settled"')));
    console.log(
      `R-31: ${COUNT} asks and ${COUNT} streams, grace ${GRACE_S} s: over after ${Math.round(tookMs)} ms, ` +
        `0 asks without an outcome, ${inTime.length} outcomes seen on a stream before it ended`,
    );
    expect(inTime).toHaveLength(COUNT);
  }, 180_000);

  it("is cut short by a second SIGTERM", async () => {
    const mesh = await start(newFolder(), "--grace", "60");
    await startHolder(mesh, 1);
    const sessionId = await openAsk(mesh);
    await until("the task to be sent", async () => {
      const [view] = await mesh.asks(sessionId);
      return view?.timeline.some(({ type }) => type === "ask.sent") || undefined;
    });
    mesh.kill("SIGTERM");
    await until("the stop to begin", async () =>
      (await mesh.call("GET", "/readyz")).status === 503 ? true : undefined,
    );
    const secondAt = performance.now();
    mesh.kill("SIGTERM");
    await mesh.exited;
    expect(performance.now() - secondAt).toBeLessThan(1_000);
  });
});
