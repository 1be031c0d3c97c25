/** Mesh processes on one PostgreSQL: what one takes in, any of them answers, shows, stops and carries on. */
import type { AskView } from "@leafmesh/protocol";
import { findRefusal } from "@leafmesh/testkit";
import { startTwilioSms } from "@leafmesh/testkit/notifiers";
import { type PostgresServer, postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startDevice } from "../support/device.ts";
import { readStream } from "../support/event-stream.ts";
import { createGates } from "../support/gates.ts";
import type { RunningMesh } from "../support/mesh.ts";
import { allModelRequests, callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { allOutput, killAll, type RunningProcess, startLeafmesh } from "../support/process.ts";
import { type SeveralMeshes, startSeveral } from "../support/several-meshes.ts";
import { until } from "../support/until.ts";

const READ = callFor({ action: "battery.read", inputs: {} });
const TAKEN_OVER_WITHIN_MS = 20_000;
const DEVICE = { id: "phone-7", push_token: "token-of-phone-7" };

interface RunBody {
  readonly run_id: string;
  readonly session_id: string;
}

describe.skipIf(!postgresAvailable())("several mesh processes on one PostgreSQL", () => {
  const gates = createGates();
  let server: PostgresServer;
  let model: ObedientModel;
  let meshes: SeveralMeshes;
  const devices: RunningProcess[] = [];

  const yaml = (more = "", block = "connection: phones") => `name: several
${model.yaml}connections:
  phones: { provider: direct }
${more}agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { ${block} }
`;

  beforeAll(async () => {
    [server, model] = await Promise.all([startPostgres(), startObedientModel({ before: gates.pass })]);
  });
  beforeEach(async () => {
    meshes = await startSeveral(server, yaml());
  });
  afterEach(async () => {
    await Promise.all(devices.splice(0).map((device) => device.stop()));
    await meshes.close();
  });
  afterAll(async () => {
    await killAll();
    await Promise.all([model?.close(), server?.stop()]);
  });

  const open = async (mesh: RunningMesh, body: unknown = {}): Promise<string> =>
    (await mesh.call<RunBody>("POST", "/api/sessions", body)).body.session_id;
  const say = async (mesh: RunningMesh, sessionId: string, query: string): Promise<string> => {
    const { status, body } = await mesh.call<RunBody>("POST", `/api/sessions/${sessionId}/query`, { query });
    expect(status).toBe(202);
    return body.run_id;
  };
  const lastReply = async (mesh: RunningMesh, sessionId: string): Promise<string | undefined> => {
    const last = (await mesh.history(sessionId)).at(-1);
    return last?.role === "assistant" && !last.tool_calls ? (last.content ?? undefined) : undefined;
  };
  const statusOf = async (runId: string): Promise<unknown> =>
    (await meshes.query(`select status from leafmesh.runs where id = '${runId}'`))[0]?.status;
  const attach = async (meshUrl: string, behave: string): Promise<RunningProcess> => {
    const device = await startDevice(meshUrl, { behave });
    devices.push(device);
    return device;
  };

  it("a message on A is read on B's stream, without a gap", async () => {
    const [a, b] = await Promise.all([meshes.start(), meshes.start()]);
    const sessionId = await open(a);
    const stream = await readStream(b.url, sessionId);
    await say(a, sessionId, "hello");
    await stream.waitFor("the run's end", ({ type }) => type === "run.finished");
    const numbers = stream.frames.flatMap(({ id }) => id ?? []);
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    expect(stream.frames.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["message.received", "run.queued", "run.started", "model.answered"]),
    );
    await stream.close();
    expect(await lastReply(b, sessionId)).toBe("You said: hello");
  });

  it("tables are made by `leafmesh migrate`, and a process with another secret key is told so", async () => {
    const a = await meshes.start();
    const migrated = meshes.run("migrate");
    expect(await migrated.exited).toBe(0);
    expect(migrated.output()).toMatch(/^postgres:\/\/127\.0\.0\.1:\d+\/journey_\d+ is up to date\n$/);
    const stranger = startLeafmesh(["run", `${a.folder}/mesh.yaml`, "--port", "0"], {
      LEAFMESH_SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
    });
    expect(await stranger.exited).toBe(1);
    expect(stranger.output()).toContain("give every process the same LEAFMESH_SECRET_KEY");
  });

  it("the second message of a conversation, on C, waits for the first, on A", async () => {
    const [a, , c] = await Promise.all([meshes.start(), meshes.start(), meshes.start()]);
    gates.hold("first");
    const sessionId = await open(a);
    const first = await say(a, sessionId, "first");
    await gates.reached("first");
    const second = await say(c, sessionId, "second");
    const other = await c.request({ message: "another conversation" });
    expect(other).toMatchObject({ status: "succeeded" });
    expect([await statusOf(first), await statusOf(second)]).toEqual(["running", "queued"]);
    gates.release("first");
    await until("the second reply", async () =>
      (await lastReply(a, sessionId)) === "You said: second" ? true : undefined,
    );
    expect((await a.history(sessionId)).map(({ content }) => content)).toEqual([
      "first",
      "You said: first",
      "second",
      "You said: second",
    ]);
  });

  it("a client's tool is called for a run on A, seen on B's stream and answered through C, once", async () => {
    const [a, b, c] = await Promise.all([meshes.start(), meshes.start(), meshes.start()]);
    const beep = { tool_id: "device_beep", description: "Beep once.", parameters: { type: "object" } };
    const sessionId = await open(a, { context: { device_tools: [beep] } });
    const stream = await readStream(b.url, sessionId, { "x-mewbo-capabilities": "device_control" });
    const runId = await say(a, sessionId, callFor({ tool: "device_beep" }));
    const frame = await stream.waitFor("the call", ({ type }) => type === "device_tool_call");
    const { call_id: callId, call_token } = frame.payload;
    const path = `/api/sessions/${sessionId}/device_tools/${String(callId)}/result`;
    const answers = await Promise.all(
      [c, a, b].map((mesh) => mesh.call("POST", path, { call_token, status: "ok", result: { beeped: true } })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409]);
    await stream.waitFor("the run's end", ({ type, payload }) => type === "run.finished" && payload.run_id === runId);
    expect(resultsIn(await lastReply(c, sessionId))).toEqual([{ status: "ok", result: { beeped: true } }]);
    await stream.close();
  });

  it("an ask of one process is cancelled through another", async () => {
    const [a, b] = await Promise.all([meshes.start(), meshes.start()]);
    const device = await attach(b.url, "late=8000");
    const sessionId = await open(a, { device: DEVICE });
    await say(a, sessionId, READ);
    await device.waitFor("accepted");
    const [view] = await b.asks(sessionId);
    for (const mesh of [a, b]) {
      const cancelled = startLeafmesh(["asks", "cancel", view?.ask_id ?? "", "--url", mesh.url]);
      await cancelled.exited;
    }
    const result = await until("the outcome", async () => (await a.asks(sessionId))[0]?.result);
    expect(result).toMatchObject({ outcome: "failed", reason: "cancelled", may_have_happened: true });
  });

  it("a run that A drives is cancelled through B", async () => {
    const a = await meshes.start();
    gates.hold("cancel me");
    const sessionId = await open(a);
    const runId = await say(a, sessionId, "cancel me");
    await gates.reached("cancel me");
    const b = await meshes.start();
    const { status } = await b.call("DELETE", `/api/sessions/${sessionId}`);
    expect(status).toBeLessThan(300);
    expect(await statusOf(runId)).toBe("cancelled");
    gates.release("cancel me");
  });

  it("a device that is connected to B is rung for a run on A, and answers into A's room", async () => {
    const a = await meshes.start();
    const b = await meshes.start();
    await attach(b.url, "done");
    for (const mesh of [a, b]) {
      const reply = await mesh.request({ message: READ, device: DEVICE });
      expect(resultsIn(reply.reply)[0]).toMatchObject({ outcome: "done", data: { level: 71 } });
    }
  });

  it("A is killed while the model thinks: B goes on, and everything is said once", async () => {
    const a = await meshes.start();
    gates.hold("carry on");
    const sessionId = await open(a);
    await say(a, sessionId, "carry on");
    await gates.reached("carry on");
    const b = await meshes.start();
    const stream = await readStream(b.url, sessionId);
    a.kill("SIGKILL");
    const killedAt = performance.now();
    await gates.reached("carry on", 2);
    const tookMs = performance.now() - killedAt;
    gates.release("carry on");
    await stream.waitFor("the run's end", ({ type }) => type === "run.finished");
    expect(tookMs).toBeLessThan(TAKEN_OVER_WITHIN_MS);
    console.log(`taken over ${Math.round(tookMs)} ms after the kill`);
    expect((await b.history(sessionId)).map(({ content }) => content)).toEqual(["carry on", "You said: carry on"]);
    await stream.close();
  });

  it("A is killed after a message was stored and before anybody took it: B answers it", async () => {
    const a = await meshes.start();
    const b = await meshes.start();
    const sessionId = await open(a);
    await meshes.query(
      `insert into leafmesh.runs (id, session_id, agent, status, input, created_at, deadline_at, version)
       select 'run_orphan', '${sessionId}', 'helper', 'queued', 'anybody there?', t, t + 3600000, 1
       from (select (extract(epoch from now()) * 1000)::bigint as t) as clock`,
    );
    a.kill("SIGKILL");
    const reply = await until("the reply", () => lastReply(b, sessionId));
    expect(reply).toBe("You said: anybody there?");
  });

  it("A is killed while a device works in A's own room: B ends the ask honestly, and nothing is done twice", async () => {
    const a = await meshes.start();
    const device = await attach(a.url, "late=3000");
    const sessionId = await open(a, { device: DEVICE });
    await say(a, sessionId, READ);
    await device.waitFor("accepted");
    const b = await meshes.start();
    a.kill("SIGKILL");
    const reply = await until("the reply", () => lastReply(b, sessionId));
    expect(resultsIn(reply)[0]).toMatchObject({
      outcome: "failed",
      reason: "mesh_restarted",
      may_have_happened: true,
    });
    expect(device.lines.filter(({ event }) => event === "acted").length).toBeLessThanOrEqual(1);
    expect((await b.history(sessionId)).map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
  });

  it("A is killed while a device works in a room outside: B ends the ask with the device's answer", async () => {
    const key = "room-key-of-the-meshes";
    const rooms = startLeafmesh(["rooms", "serve", "--port", "0", "--key", key, "--json"]);
    devices.push(rooms);
    const roomsUrl = String((await rooms.waitFor("ready")).url);
    const own = await startSeveral(
      server,
      yaml(`  rooms: { provider: room, url: "${roomsUrl}", api_key: "${key}" }\n`, "connection: phones, room: rooms"),
    );
    try {
      const a = await own.start();
      const device = await attach(a.url, "late=3000");
      const sessionId = await open(a, { device: DEVICE });
      await say(a, sessionId, READ);
      await device.waitFor("accepted");
      const b = await own.start();
      a.kill("SIGKILL");
      const reply = await until("the reply", () => lastReply(b, sessionId));
      expect(resultsIn(reply)[0]).toMatchObject({ outcome: "done", data: { level: 71 } });
      expect(device.lines.filter(({ event }) => event === "acted")).toHaveLength(1);
      const [view] = await b.asks(sessionId);
      expect((view satisfies AskView | undefined)?.timeline.filter(({ type }) => type === "ask.settled")).toHaveLength(
        1,
      );
    } finally {
      await own.close();
    }
  });

  it("the database is killed under load and comes back: what was acknowledged is answered, once", async () => {
    await meshes.close();
    const durable = await startPostgres({ durable: true });
    const own = await startSeveral(durable, yaml());
    try {
      const both = await Promise.all([own.start(), own.start()]);
      const sessions = await Promise.all(Array.from({ length: 16 }, (_, index) => open(both[index % 2] ?? both[0])));
      const acknowledged = new Map<string, string[]>(sessions.map((sessionId) => [sessionId, []]));
      let isOver = false;
      const talk = async (sessionId: string, index: number): Promise<void> => {
        for (let count = 1; !isOver; count++) {
          const mesh = both[(index + count) % 2] ?? both[0];
          const query = `${sessionId} ${count}`;
          const { status } = await mesh.call("POST", `/api/sessions/${sessionId}/query`, { query });
          if (status === 202) acknowledged.get(sessionId)?.push(query);
          await new Promise((resolve) => setTimeout(resolve, 200));
        }
      };
      const talking = sessions.map(talk);
      await until("some answers", async () => [...acknowledged.values()].flat().length > 40 || undefined);
      await durable.kill();
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      await durable.start();
      const before = [...acknowledged.values()].flat().length;
      await until("more answers", async () => [...acknowledged.values()].flat().length > before + 40 || undefined);
      isOver = true;
      await Promise.all(talking);
      for (const [sessionId, queries] of acknowledged) {
        const said = await until("every answer", async () => {
          const history = await both[0].history(sessionId);
          const replies = history.flatMap(({ role, content }) => (role === "assistant" ? [content] : []));
          return queries.every((query) => replies.includes(`You said: ${query}`)) ? history : undefined;
        });
        const users = said.flatMap(({ role, content }) => (role === "user" ? [content] : []));
        expect(new Set(users).size).toBe(users.length);
        expect(said.map(({ role }) => role)).toEqual(users.flatMap(() => ["user", "assistant"]));
      }
      console.log(`${[...acknowledged.values()].flat().length} messages acknowledged, all answered once`);
    } finally {
      await own.close();
      await durable.stop();
    }
  }, 120_000);

  it("never gives the model a history that a provider refuses, nor prints the database's password", () => {
    for (const body of allModelRequests) expect(findRefusal(JSON.parse(body))).toBeUndefined();
    expect(allOutput.join("")).not.toContain(server.password);
  });

  it("opens the link of a text message in whichever process the person reaches, once among them all", async () => {
    const account_sid = `AC${"0123456789abcdef".repeat(2)}`;
    const twilio = await startTwilioSms({ sid: account_sid, authToken: "the-auth-token", numbers: ["+15005550006"] });
    const record = { provider: "twilio_sms", account_sid, from: "+15005550006", auth_token: "the-auth-token" };
    const texts = `  texts: ${JSON.stringify({ ...record, link: "https://go.example.com" })}\n`;
    const several = await startSeveral(server, yaml(texts, "connection: texts"), {
      played: [twilio.server.address],
    });
    try {
      const [rings, other] = [await several.start(), await several.start()];
      const outcome = rings.request({ message: READ, device: { id: "phone-7", push_token: "+15558675310" } });
      while (twilio.texts.length === 0) await twilio.server.received(twilio.server.requests.length + 1);
      const path = `/j/${twilio.texts[0]?.body.split("/").at(-1)}`;
      expect((await fetch(other.url + path)).status).toBe(200);
      const opened = await Promise.all([other, rings, other].map((mesh) => mesh.call("POST", path)));
      expect(opened.map(({ status }) => status).sort()).toEqual([200, 410, 410]);
      expect(opened.find(({ status }) => status === 200)?.body).toMatchObject({ request: { action: "battery.read" } });
      expect((await fetch(other.url + path)).status).toBe(410);
      const [ask] = (await rings.call<{ asks: readonly AskView[] }>("GET", "/api/asks?open=true")).body.asks;
      await rings.call("POST", `/api/asks/${ask?.ask_id}/cancel`);
      expect(resultsIn((await outcome).reply)).toMatchObject([{ success: false, reason: "cancelled" }]);
    } finally {
      await several.close();
      await twilio.close();
    }
  });
});
