/** Processes that stop without ending: connections stay, nothing is answered. Prints how late the ends came. */
import type { AskView } from "@leafmesh/protocol";
import { mosquittoAvailable } from "@leafmesh/testkit/mosquitto";
import { postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createGates } from "../support/gates.ts";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess } from "../support/process.ts";
import { startSeveral } from "../support/several-meshes.ts";
import { direct, mqtt, type Transport } from "../support/transports.ts";
import { until } from "../support/until.ts";

const READ = callFor({ action: "battery.read", inputs: {} });
const WAIT_MS = 3_000;
const LATENESS_MS = 1_500;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const gates = createGates();
let model: ObedientModel;
const running: RunningProcess[] = [];
const keep = <Process extends RunningProcess>(process: Process): Process => {
  running.push(process);
  return process;
};

beforeAll(async () => {
  model = await startObedientModel({ before: gates.pass });
});
afterEach(async () => {
  for (const process of running) process.kill("SIGCONT");
  await Promise.all(running.splice(0).map((process) => process.stop()));
});
afterAll(async () => {
  await killAll();
  await model?.close();
});

const startOver = async (transport: Transport): Promise<RunningMesh> =>
  keep(
    await startMesh({
      yaml: `name: frozen
${model.yaml}${transport.connections}agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { ${transport.block}, join_timeout: ${WAIT_MS / 1000}, reply_timeout: ${WAIT_MS / 1000} }
`,
    }),
  );
const ask = async (mesh: RunningMesh, transport: Transport, id?: string): Promise<string> => {
  const { body } = await mesh.call<{ session_id: string }>("POST", "/api/sessions", { device: transport.device(id) });
  await mesh.call("POST", `/api/sessions/${body.session_id}/query`, { query: READ });
  return body.session_id;
};
const sawStep = (mesh: RunningMesh, sessionId: string, step: string): Promise<true> =>
  until(step, async () => {
    const [view] = await mesh.asks(sessionId);
    return view?.timeline.some(({ type }) => type === step) || undefined;
  });
const outcome = (mesh: RunningMesh, sessionId: string): Promise<AskView> =>
  until("the outcome", async () => (await mesh.asks(sessionId)).find(({ result }) => result));
const settlements = ({ timeline }: AskView): number => timeline.filter(({ type }) => type === "ask.settled").length;

describe("a device that freezes", () => {
  it.each([
    ["before it joins", "late=500", "ask.ringing"],
    ["while it works", "late=500", "ask.accepted"],
  ])("%s: the ask ends at its own deadline, and the thaw changes nothing", async (_, behave, step) => {
    const transport = await direct();
    const mesh = await startOver(transport);
    const device = keep(await transport.start(mesh.url, { behave }));
    const isBefore = step === "ask.ringing";
    if (isBefore) device.kill("SIGSTOP");
    const sessionId = await ask(mesh, transport);
    await sawStep(mesh, sessionId, step);
    const frozenAt = performance.now();
    device.kill("SIGSTOP");
    const view = await outcome(mesh, sessionId);
    const lateMs = performance.now() - frozenAt - WAIT_MS;
    expect(view.result).toMatchObject(
      isBefore
        ? { outcome: "not_joined" }
        : {
            outcome: "failed",
            may_have_happened: true,
            reason: expect.stringMatching(/^(no_answer|connection_lost)$/),
          },
    );
    expect(lateMs).toBeLessThan(LATENESS_MS);
    device.kill("SIGCONT");
    await device.waitFor("settled");
    const [after] = await mesh.asks(sessionId);
    expect(after?.result).toEqual(view.result);
    expect(settlements(after ?? view)).toBe(1);
    const acted = device.lines.filter(({ event }) => event === "acted").length;
    expect(acted).toBeLessThanOrEqual(isBefore ? 0 : 1);
    console.log(`R-08: device frozen at ${step}: ${view.result?.reason}, ${Math.round(lateMs)} ms after the deadline`);
  });
});

describe.skipIf(!mosquittoAvailable())("R-08 a broker that freezes", () => {
  it.each([
    ["before the ring", undefined],
    ["while the device works", "ask.accepted"],
  ])("%s: the ask ends at its own deadline", async (_, step) => {
    const transport = await mqtt();
    try {
      const mesh = await startOver(transport);
      const device = keep(await transport.start(mesh.url, { behave: "late=500" }));
      if (!step) transport.freeze();
      const sessionId = await ask(mesh, transport);
      if (step) await sawStep(mesh, sessionId, step);
      const frozenAt = performance.now();
      if (step) transport.freeze();
      const view = await outcome(mesh, sessionId);
      const tookMs = performance.now() - frozenAt;
      expect(view.result).toMatchObject(
        step
          ? { outcome: "failed", may_have_happened: true }
          : { outcome: expect.stringMatching(/^(unreachable|not_joined)$/), success: false },
      );
      if (!step) expect(view.result).not.toHaveProperty("may_have_happened", true);
      transport.thaw();
      const again = await mesh.request({ message: READ, device: transport.device() });
      expect(again.status).toBe("succeeded");
      const [after] = await mesh.asks(sessionId);
      expect(after?.result).toEqual(view.result);
      const acted = device.lines.filter(({ event, ask: of }) => event === "acted" && of === view.ask_id);
      expect(acted.length).toBeLessThanOrEqual(step ? 1 : 0);
      console.log(
        `R-08: broker frozen ${step ?? "before the ring"}: ${view.result?.reason} after ${Math.round(tookMs)} ms`,
      );
      // A room and a ring may each use the whole wait for the join.
      expect(tookMs).toBeLessThan((step ? 1 : 2) * WAIT_MS + LATENESS_MS + (step ? 0 : 8_000));
    } finally {
      transport.thaw();
      await Promise.all(running.splice(0).map((process) => process.stop()));
      await transport.close();
    }
  });
});

describe("R-27 a machine that sleeps", () => {
  it("ends each ask once when it wakes: the answered one with its answer or a doubt, and drops no device", async () => {
    const transport = await direct();
    const mesh = await startOver(transport);
    const devices = {
      answering: keep(await transport.start(mesh.url, { id: "phone-7", behave: "late=800" })),
      mute: keep(await transport.start(mesh.url, { id: "tablet-2", behave: "ignore" })),
    };
    const sessions = [await ask(mesh, transport, "phone-7"), await ask(mesh, transport, "tablet-2")] as const;
    await devices.answering.waitFor("accepted");
    await sawStep(mesh, sessions[1], "ask.sent");
    mesh.kill("SIGSTOP");
    await pause(WAIT_MS + 2_000);
    mesh.kill("SIGCONT");
    const wokeAt = performance.now();
    const [answered, unanswered] = await Promise.all(sessions.map((sessionId) => outcome(mesh, sessionId)));
    const tookMs = performance.now() - wokeAt;
    if (!answered || !unanswered) throw new Error("no outcome");
    expect(unanswered.result).toMatchObject({ reason: "no_answer", may_have_happened: true });
    if (answered.result?.outcome !== "done") {
      expect(answered.result).toMatchObject({ outcome: "failed", may_have_happened: true });
    }
    for (const view of [answered, unanswered]) expect(settlements(view)).toBe(1);
    const next = await mesh.request({ message: READ, device: transport.device("phone-7") });
    expect((await mesh.asks(next.session_id))[0]?.result).toMatchObject({ outcome: "done" });
    console.log(
      `R-27: asleep for ${WAIT_MS + 2_000} ms: ends ${Math.round(tookMs)} ms after waking, the device that had answered: ` +
        `${answered.result?.outcome}; 0 devices dropped`,
    );
  });
});

describe.skipIf(!postgresAvailable())("on one PostgreSQL", () => {
  it("that freezes: what was sent meanwhile is answered once it thaws, once; a mesh that freezes is taken over", async () => {
    await using server = await startPostgres();
    const meshes = await startSeveral(
      server,
      `name: frozen
${model.yaml}agents:
  helper: { model: test/any, prompt: Do as you are told. }
`,
    );
    try {
      const [a, b] = await Promise.all([meshes.start(), meshes.start()]);
      const open = async (): Promise<string> =>
        (await a.call<{ session_id: string }>("POST", "/api/sessions", {})).body.session_id;
      const sessions = await Promise.all(Array.from({ length: 8 }, open));
      server.freeze();
      const sending = sessions.map((sessionId, index) =>
        (index % 2 ? a : b).call("POST", `/api/sessions/${sessionId}/query`, { query: "meanwhile" }),
      );
      const healthAt = performance.now();
      expect((await a.call("GET", "/healthz")).status).toBe(200);
      const healthMs = performance.now() - healthAt;
      await pause(3_000);
      server.thaw();
      const thawedAt = performance.now();
      const statuses = (await Promise.all(sending)).map(({ status }) => status);
      expect(statuses.every((status) => status === 202 || status === 503)).toBe(true);
      for (const [index, sessionId] of sessions.entries()) {
        const expected = statuses[index] === 202 ? ["meanwhile", "You said: meanwhile"] : [];
        await until("the answer", async () =>
          JSON.stringify((await b.history(sessionId)).map(({ content }) => content)) === JSON.stringify(expected)
            ? true
            : undefined,
        );
      }
      const answeredMs = performance.now() - thawedAt;
      expect(healthMs).toBeLessThan(1_000);
      console.log(
        `R-08: PostgreSQL frozen for 3 s: ${statuses.filter((status) => status === 202).length} of 8 messages taken, all ` +
          `answered once ${Math.round(answeredMs)} ms after the thaw; /healthz meanwhile ${Math.round(healthMs)} ms`,
      );

      await b.stop();
      gates.hold("thinking");
      const sessionId = await open();
      await a.call("POST", `/api/sessions/${sessionId}/query`, { query: "thinking" });
      await gates.reached("thinking");
      const other = await meshes.start();
      a.kill("SIGSTOP");
      const frozenAt = performance.now();
      await gates.reached("thinking", 2);
      gates.release("thinking");
      const reply = await until("the reply", async () => {
        const last = (await other.history(sessionId)).at(-1);
        return last?.role === "assistant" ? last.content : undefined;
      });
      const tookMs = performance.now() - frozenAt;
      a.kill("SIGCONT");
      expect(reply).toBe("You said: thinking");
      await until("the frozen one to be back", async () =>
        (await a.call("GET", "/readyz")).status === 200 ? true : undefined,
      );
      const next = await a.call<{ status: string }>("POST", `/api/sessions/${sessionId}/query`, {
        query: "and now?",
        wait: true,
      });
      expect(next.body.status).toBe("succeeded");
      expect((await other.history(sessionId)).map(({ content }) => content)).toEqual([
        "thinking",
        "You said: thinking",
        "and now?",
        "You said: and now?",
      ]);
      console.log(`R-08: a mesh frozen for ${Math.round(tookMs)} ms: its run was answered by the other, once`);
    } finally {
      gates.release("thinking");
      await meshes.close();
    }
  }, 90_000);
});
