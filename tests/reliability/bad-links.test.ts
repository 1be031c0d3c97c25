/**
 * Every link between two processes is slow, uneven, broken into pieces and cut at random: app and mesh, device and mesh
 * (ring and room), mesh and model, mesh and PostgreSQL. The device keeps a journal, and nothing that an agent was told may
 * contradict it. Prints the seed and the outcomes.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import type { AskView } from "@leafmesh/protocol";
import { postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { startTcpProxy, type TcpProxy } from "@leafmesh/testkit/tcp-proxy";
import { afterAll, describe, expect, it } from "vitest";
import { startKitDevice } from "../support/kit-device.ts";
import { callFor, startObedientModel } from "../support/model.ts";
import { killAll } from "../support/process.ts";
import { startSeveral } from "../support/several-meshes.ts";
import { until } from "../support/until.ts";

const READ = callFor({ action: "battery.read", inputs: {} });
const DEVICE = { id: "phone-7", push_token: "token-of-phone-7" };
const SESSIONS = 12;
const MESSAGES = 3;
const CUT_EVERY_MS = 250;

/** Numbers from 0 to 1 that a seed repeats. https://en.wikipedia.org/wiki/Linear_congruential_generator */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address !== "object" || !address) throw new Error("no free port");
  return address.port;
}

describe.skipIf(!postgresAvailable())("R-01 R-02 bad links between all processes", () => {
  afterAll(killAll);

  it("leave each ask with one outcome, which the device's journal does not contradict", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const random = seeded(seed);
    await using server = await startPostgres();
    const meshPort = await freePort();
    const model = await startObedientModel();
    const proxies = {
      database: await startTcpProxy(server.port, random),
      model: await startTcpProxy(Number(new URL(model.server.baseUrl).port), random),
      app: await startTcpProxy(meshPort, random),
      device: await startTcpProxy(meshPort, random),
    };
    const through = (url: string, { port }: TcpProxy): string => url.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${port}`);
    const meshes = await startSeveral(
      { ...server, createDatabase: async (name) => through(await server.createDatabase(name), proxies.database) },
      `name: bad-links
${through(model.yaml, proxies.model)}connections:
  phones: { provider: direct }
agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { connection: phones, join_timeout: 8, reply_timeout: 5 }
`,
    );
    const advertised = `http://127.0.0.1:${proxies.device.port}`;
    const mesh = await meshes.start(["--port", `${meshPort}`, "--advertise-url", advertised, "--log-level", "error"]);
    const device = await startKitDevice(advertised, {
      ...{ id: DEVICE.id, token: DEVICE.push_token, maxAsks: SESSIONS },
      handler: () => new Promise((answer) => setTimeout(answer, 100 * random(), { level: 71 })),
    });
    const sessions: string[] = [];
    for (let index = 0; index < SESSIONS; index++) {
      const { body } = await mesh.call<{ session_id: string }>("POST", "/api/sessions", { device: DEVICE });
      sessions.push(body.session_id);
    }

    const links = Object.values(proxies);
    for (const link of links) link.set({ delayMs: 3, jitterMs: 3, pieceBytes: 700 });
    let cuts = 0;
    const cutting = setInterval(() => {
      links[Math.floor(random() * links.length)]?.cut(random() < 0.5 ? "rst" : "fin");
      cuts++;
    }, CUT_EVERY_MS);
    try {
      const appUrl = `http://127.0.0.1:${proxies.app.port}`;
      const taken = await Promise.all(
        sessions.map(async (sessionId) => {
          const runs: string[] = [];
          for (let count = 0; count < MESSAGES; count++) {
            const answer = await fetch(`${appUrl}/api/sessions/${sessionId}/query`, {
              method: "POST",
              headers: { "content-type": "application/json" },
              body: JSON.stringify({ query: READ }),
            }).catch(() => undefined);
            if (answer?.status === 202) {
              const body = (await answer.json().catch(() => ({}))) as { run_id?: string };
              if (body.run_id) runs.push(body.run_id);
            }
            await new Promise((next) => setTimeout(next, 400 * random()));
          }
          return runs;
        }),
      );
      for (const runId of taken.flat()) {
        await until(`the end of ${runId}`, async () => {
          const { status, body } = await mesh.call<{ status: string }>("GET", `/api/runs/${runId}`);
          return status === 200 && !/^(queued|running)$/.test(body.status) ? true : undefined;
        });
      }
      clearInterval(cutting);
      for (const link of links) link.set({ delayMs: 0, jitterMs: 0, pieceBytes: 0 });
      // Those too whose answer the app never saw.
      await until("every run's end", async () => {
        const open = await meshes.query("select id from leafmesh.runs where finished_at is null");
        return open.length === 0 || undefined;
      });
      for (const runId of taken.flat()) {
        const { body } = await mesh.call<{ status: string }>("GET", `/api/runs/${runId}`);
        expect(body.status, `seed ${seed}: ${runId}`).toMatch(/^(succeeded|failed)$/);
      }

      const views: AskView[] = [];
      for (const sessionId of sessions) {
        views.push(
          ...(await until("every outcome", async () => {
            const asks = await mesh.asks(sessionId).catch(() => undefined);
            return asks?.every(({ result }) => result) ? asks : undefined;
          })),
        );
      }
      const outcomes = new Map<string, number>();
      for (const { ask_id, result, timeline } of views) {
        const done = device.acted.filter((ask) => ask === ask_id).length;
        const about = `seed ${seed}: ${ask_id} ${JSON.stringify(result)}, done ${done} times`;
        expect(done, about).toBeLessThanOrEqual(1);
        if (result?.outcome === "done") expect(done, about).toBe(1);
        else if (!result?.may_have_happened) expect(done, about).toBe(0);
        expect(timeline.filter(({ type }) => type === "ask.settled").length, about).toBe(1);
        const name = result?.reason ?? result?.outcome ?? "none";
        outcomes.set(name, (outcomes.get(name) ?? 0) + 1);
      }
      expect(device.acted.every((ask) => views.some(({ ask_id }) => ask_id === ask))).toBe(true);
      console.log(
        `R-01: seed ${seed}, ${cuts} cuts, ${taken.flat().length} messages taken, ${views.length} asks: ` +
          `${JSON.stringify(Object.fromEntries(outcomes))}; 0 violations`,
      );
      expect(views.length).toBeGreaterThan(0);
    } finally {
      clearInterval(cutting);
      await device.close();
      await meshes.close();
      await Promise.all(links.map((link) => link.stop()));
      await model.close();
    }
  }, 90_000);
});
