import { Secret } from "@leafmesh/protocol";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RoomServer, serveRooms } from "../serve.ts";
import { CONFORMANCE_TESTS, runConformance } from "./index.ts";

const key = new Secret("conformance-key-of-32-characters");

describe("the service of this package", () => {
  let server: RoomServer;

  beforeAll(async () => {
    server = await serveRooms({
      host: "127.0.0.1",
      port: 0,
      apiKeys: [key],
      limits: { idle_s: 0.5, dead_s: 0.5, grace_s: 1, rate: 500, burst: 100 },
      bounds: { drainMs: 1000, helloMs: 2000 },
    });
  });
  afterAll(() => server.close());

  it("keeps every requirement of the protocol", { timeout: 60_000 }, async () => {
    const report = await runConformance({ url: server.url, key });
    expect(report.results.filter(({ status }) => status !== "pass")).toEqual([]);
    expect(report.passed).toBe(CONFORMANCE_TESTS.length);
  });
});
