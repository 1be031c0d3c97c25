/** A wall clock that jumps under a mesh with waits open: every wait ends when it would have. Prints how far off. */
import type { AskView, RunState } from "@leafmesh/protocol";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDevice } from "../support/device.ts";
import { readStream } from "../support/event-stream.ts";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess } from "../support/process.ts";
import { createShiftedClock, type ShiftedClock, shiftedClockAvailable } from "../support/shifted-clock.ts";
import { until } from "../support/until.ts";

const HOUR_S = 3_600;
const DAY_S = 24 * HOUR_S;
const READ = callFor({ action: "battery.read", inputs: {} });
const WAIT_MS = 2_000;
const LATENESS_MS = 1_000;

describe.skipIf(!shiftedClockAvailable())("a wall clock that jumps", () => {
  let model: ObedientModel;
  let clock: ShiftedClock;
  let mesh: RunningMesh;
  const folder = newFolder();
  const devices: RunningProcess[] = [];

  const start = (): Promise<RunningMesh> =>
    startMesh({
      folder,
      env: clock.env,
      yaml: `name: clocks
${model.yaml}connections:
  phones: { provider: direct }
tools:
  highlight:
    client_owned: true
    description: Highlight an element.
    input_schema: { type: object }
agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    tools: [highlight]
    device: { connection: phones, join_timeout: ${WAIT_MS / 1000}, reply_timeout: ${WAIT_MS / 1000} }
`,
    });

  beforeAll(async () => {
    model = await startObedientModel();
    clock = createShiftedClock();
    mesh = await start();
  });
  afterEach(async () => {
    clock.shift(0);
    await Promise.all(devices.splice(0).map((device) => device.stop()));
  });
  afterAll(async () => {
    await mesh?.stop();
    await killAll();
    await model?.close();
  });

  const nowOfMesh = async (): Promise<number> => {
    const date = (await fetch(`${mesh.url}/healthz`)).headers.get("date");
    return Date.parse(date ?? "");
  };
  const reached = (sessionId: string, step: string): Promise<AskView> =>
    until(step, async () => {
      const [view] = await mesh.asks(sessionId);
      return view?.timeline.some(({ type }) => type === step) ? view : undefined;
    });
  const settled = (sessionId: string): Promise<AskView> =>
    until("the outcome", async () => {
      const [view] = await mesh.asks(sessionId);
      return view?.result ? view : undefined;
    });
  const ask = async (id: string): Promise<string> => {
    const device = { id, push_token: `token-of-${id}` };
    const { body } = await mesh.call<{ session_id: string }>("POST", "/api/sessions", { device });
    await mesh.call("POST", `/api/sessions/${body.session_id}/query`, { query: READ });
    return body.session_id;
  };

  it("is what the mesh shows, in this test", async () => {
    clock.shift(HOUR_S);
    await until("the mesh's clock to be ahead", async () =>
      (await nowOfMesh()) - Date.now() > (HOUR_S - 60) * 1_000 ? true : undefined,
    );
  });

  const graceOfExecutor = async (): Promise<() => Promise<string>> => {
    const beep = { tool_id: "device_beep", description: "Beep once.", parameters: { type: "object" } };
    const { body } = await mesh.call<{ session_id: string }>("POST", "/api/sessions", {
      context: { device_tools: [beep] },
    });
    const stream = await readStream(mesh.url, body.session_id, { "x-mewbo-capabilities": "device_control" });
    const query = callFor({ tool: "device_beep" });
    await mesh.call("POST", `/api/sessions/${body.session_id}/query`, { query });
    await stream.waitFor("the call", ({ type }) => type === "device_tool_call");
    await stream.close();
    return () =>
      until("the run's end", async () => {
        const last = (await mesh.history(body.session_id)).at(-1);
        return last?.role === "assistant" && !last.tool_calls ? (last.content ?? undefined) : undefined;
      });
  };
  const suspended = async (): Promise<() => Promise<string>> => {
    const { body: submitted } = await mesh.call<{ run_id: string }>("POST", "/runs", {
      agent_slug: "helper",
      input: { message: callFor({ tool: "highlight" }) },
      client_tools: "suspend",
      client_tool_timeout_s: 5,
    });
    const status = async (): Promise<string> =>
      (await mesh.call<RunState>("GET", `/runs/${submitted.run_id}/state`)).body.status;
    await until("the wait", async () => ((await status()) === "suspended" ? true : undefined));
    return () =>
      until("the end of the wait", async () => {
        const now = await status();
        return now === "suspended" ? undefined : now;
      });
  };
  const waitOfAsk = (device: string, behave: string, step: string) => async (): Promise<() => Promise<string>> => {
    devices.push(await startDevice(mesh.url, { id: device, token: `token-of-${device}`, behave }));
    const sessionId = await ask(device);
    await reached(sessionId, step);
    return async () => JSON.stringify((await settled(sessionId)).result);
  };

  const waits = [
    { wait: "join", ms: WAIT_MS, end: '"no_join"', begin: waitOfAsk("hermit", "no-join", "ask.rung") },
    { wait: "reply", ms: WAIT_MS, end: '"no_answer"', begin: waitOfAsk("mute", "ignore", "ask.sent") },
    { wait: "answer", ms: 900, end: '"level":71', begin: waitOfAsk("slow", "late=900", "ask.accepted") },
    { wait: "suspended run", ms: 5_000, end: "timed_out", begin: suspended },
    { wait: "grace of an executor", ms: 5_000, end: "device_unavailable", begin: graceOfExecutor },
  ];

  it.each([HOUR_S, -HOUR_S, DAY_S])("R-26 by %d s under every kind of wait: each ends on time", async (seconds) => {
    const begun = await Promise.all(
      waits.map(async (wait) => {
        const ended = await wait.begin();
        const begunAt = performance.now();
        const tookMs = ended().then((end) => {
          expect(end).toContain(wait.end);
          return performance.now() - begunAt;
        });
        return { ...wait, tookMs };
      }),
    );
    clock.shift(seconds);
    for (const { wait, ms, tookMs } of begun) {
      const lateMs = (await tookMs) - ms;
      console.log(`R-26: ${seconds} s, ${wait}: ended ${Math.round(lateMs)} ms after its ${ms} ms`);
      expect(lateMs).toBeGreaterThan(-700);
      expect(lateMs).toBeLessThan(LATENESS_MS);
    }
  });
});
