/** The load of `npm run bench -- bridge-load`, short: what it must not do under load. */
import { postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { afterAll, describe, expect, it } from "vitest";
import { loadBridge, startWorkModel } from "../../bench/bridge-load/load.ts";
import { killAll } from "../support/process.ts";
import { startSeveral } from "../support/several-meshes.ts";

const SESSIONS = 24;

describe.skipIf(!postgresAvailable())("calls of clients' tools over three mesh processes", () => {
  afterAll(killAll);

  it("are none lost, none doubled, none stuck", async () => {
    await using server = await startPostgres();
    const model = await startWorkModel();
    const meshes = await startSeveral(
      server,
      `name: bridge-load
models:
  test: { base_url: "${model.server.baseUrl}", api_key: none }
limits: { max_concurrent_runs: ${SESSIONS} }
agents:
  helper: { model: test/any, prompt: Do as you are told. }
`,
    );
    try {
      const started = await Promise.all([1, 2, 3].map(() => meshes.start(["--log-level", "warn"])));
      const urls = started.map(({ url }) => url);
      const { calls, lost, doubled, stuck } = await loadBridge(urls, model, { sessions: SESSIONS, seconds: 4 });
      expect({ lost, doubled, stuck }).toEqual({ lost: 0, doubled: 0, stuck: 0 });
      expect(calls).toBeGreaterThanOrEqual(SESSIONS);
      console.log(`${calls} calls of ${SESSIONS} conversations over 3 processes: 0 lost, 0 doubled, 0 stuck`);
    } finally {
      await meshes.close();
      await model.server.close();
    }
  });
});
