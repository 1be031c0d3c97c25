import { randomBytes } from "node:crypto";
import { postgresAvailable } from "@leafmesh/testkit/postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSealer, SECRET_KEY_BYTES } from "../security/sealer.ts";
import { startTestDatabases, type TestDatabases } from "../storage/postgres/testing/databases.ts";
import { callsOnce, party, SEND_SMS } from "./testing/party.ts";

describe.skipIf(!postgresAvailable())("a call of a declared tool, in a mesh of several processes", () => {
  let databases: TestDatabases;
  beforeAll(async () => {
    databases = await startTestDatabases();
  }, 60_000);
  afterAll(() => databases?.stop());

  it("is asked for on one, seen on the stream of another, and answered on a third", async () => {
    const url = await databases.create();
    const more = { sealer: createSealer(randomBytes(SECRET_KEY_BYTES)) };
    const backends = await Promise.all(["a", "b", "c"].map(() => databases.open(url)));
    const [first, second, third] = await Promise.all(backends.map((backend) => party(callsOnce(), { backend, more })));
    if (!first || !second || !third) throw new Error("three processes");
    try {
      const phone = await second.client({ executor: true, tools: [SEND_SMS] });
      const { runId } = await first.engine.submit({ sessionId: phone.sessionId, message: "Text mom." });
      await expect.poll(() => phone.calls.length, { timeout: 10_000 }).toBe(1);
      const [frame] = phone.calls;
      const { call_id: callId = "", call_token } = frame?.payload ?? {};
      const answer = { sessionId: phone.sessionId, callId, body: { call_token, status: "ok", result: "third" } };
      const posts = await Promise.all([third, second, first].map(({ engine }) => engine.answerDeviceTool(answer)));
      expect(posts.filter(({ status }) => status === "resolved")).toHaveLength(1);
      expect(posts.filter(({ status }) => status === "already_resolved")).toHaveLength(2);
      const run = await first.engine.waitForRun(runId, AbortSignal.timeout(10_000));
      expect(run.reply).toBe('{"status":"ok","result":"third"}');
    } finally {
      await Promise.all([first, second, third].map(({ engine }) => engine.stop({ graceMs: 0 })));
      await Promise.all(backends.map((backend) => backend.close()));
    }
  }, 60_000);
});
