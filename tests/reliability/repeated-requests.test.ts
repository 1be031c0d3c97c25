/** The same request again, under an Idempotency-Key: at once, after a crash, after its day. Prints what ran. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { type ObedientModel, startObedientModel } from "../support/model.ts";
import { killAll } from "../support/process.ts";
import { createShiftedClock, type ShiftedClock, shiftedClockAvailable } from "../support/shifted-clock.ts";
import { until } from "../support/until.ts";

const DAY_S = 24 * 3_600;
const TWINS = 50;

interface Answer {
  readonly status: number;
  readonly body: { readonly run_id?: string; readonly code?: string };
}

describe("a repeated request", () => {
  let model: ObedientModel;
  let folder: string;
  let mesh: RunningMesh;
  let asked: string[] = [];

  const start = (clock?: ShiftedClock): Promise<RunningMesh> =>
    startMesh({
      folder,
      ...(clock ? { env: clock.env } : {}),
      yaml: `name: repeats
${model.yaml}agents:
  helper: { model: test/any, prompt: Do as you are told. }
`,
    });
  const post = async (key: string, body: object): Promise<Answer> => {
    const response = await fetch(`${mesh.url}/runs`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key },
      body: JSON.stringify({ agent_slug: "helper", ...body }),
    });
    return { status: response.status, body: (await response.json()) as Answer["body"] };
  };
  const hello = { input: { message: "hello" } };
  const ended = (runId: string | undefined) =>
    until("the run's end", async () => {
      const { body } = await mesh.call<{ status: string }>("GET", `/runs/${runId}/state`);
      return body.status === "succeeded" || undefined;
    });

  beforeAll(async () => {
    model = await startObedientModel({
      before: async (said) => {
        asked.push(said);
      },
    });
  });
  beforeEach(() => {
    folder = newFolder();
    asked = [];
  });
  afterEach(killAll);
  afterAll(async () => {
    await killAll();
    await model?.close();
  });

  it(`R-22 R-25 runs once for ${TWINS} at the same time, and for one after SIGKILL`, async () => {
    mesh = await start();
    const answers = await Promise.all(Array.from({ length: TWINS }, () => post("once", hello)));
    for (const { status } of answers) expect([200, 202]).toContain(status);
    const runs = new Set(answers.map(({ body }) => body.run_id));
    expect(runs.size).toBe(1);
    const [runId] = runs;
    await ended(runId);
    mesh.kill("SIGKILL");
    await mesh.exited;
    mesh = await start();
    expect((await post("once", hello)).body.run_id).toBe(runId);
    expect(asked).toEqual(["hello"]);
    console.log(`R-22: ${TWINS + 1} requests under one key, ${asked.length} model call`);
  });

  it("R-23 R-24 is refused with another body, and runs after one that was not valid", async () => {
    mesh = await start();
    const invalid = await post("twice", { input: { message: "hello" }, client_tools: "sometimes" });
    expect(invalid.status).toBe(422);
    const first = await post("twice", hello);
    expect(first.status).toBe(202);
    await ended(first.body.run_id);
    const other = await post("twice", { input: { message: "something else" } });
    expect([other.status, other.body.code]).toEqual([409, "idempotency_conflict"]);
    expect(asked).toEqual(["hello"]);
  });

  it.skipIf(!shiftedClockAvailable())("R-25 runs again once its day is over", async () => {
    const clock = createShiftedClock();
    mesh = await start(clock);
    const first = await post("daily", hello);
    await ended(first.body.run_id);
    clock.shift(DAY_S - 3_600);
    expect((await post("daily", hello)).body.run_id).toBe(first.body.run_id);
    await mesh.stop();
    clock.shift(DAY_S + 3_600);
    mesh = await start(clock);
    const next = await post("daily", hello);
    expect(next.status).toBe(202);
    expect(next.body.run_id).not.toBe(first.body.run_id);
    await ended(next.body.run_id);
    expect(asked).toEqual(["hello", "hello"]);
  });
});
