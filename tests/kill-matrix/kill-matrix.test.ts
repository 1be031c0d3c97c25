/**
 * A mesh process is killed at every named point of a call, on one machine (and started again) and as one of two on
 * PostgreSQL (and the other takes over). The run goes on or ends honestly, and nothing is done twice.
 */
import type { CallbackNotice, RunFrameView } from "@leafmesh/protocol";
import { type PostgresServer, postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readStream } from "../support/event-stream.ts";
import { type Hook, startHook } from "../support/hook.ts";
import { killAll, startLeafmesh } from "../support/process.ts";
import { until } from "../support/until.ts";
import { type Expected, POINTS, type Point } from "./cells.ts";
import { type BackendKind, oneMachine, type Place, severalMachines } from "./place.ts";
import { playCell, type Seen } from "./play-cell.ts";
import type { Face } from "./wanted.ts";

const FACES: readonly Face[] = ["room", "rooms service", "bridge", "client"];
const BACKENDS: readonly BackendKind[] = postgresAvailable() ? ["embedded", "postgres"] : ["embedded"];
const TAKEN_OVER_WITHIN_MS = 20_000;
/** Cells at once. Those on PostgreSQL wait most of their time for a process to be taken for dead. */
const AT_ONCE: Readonly<Record<BackendKind, number>> = { embedded: 2, postgres: 7 };
/** Part of the names of the cells to play; all of them unless given. */
const ONLY = process.env.KILL_MATRIX_ONLY ?? "";
const ROOMS_KEY = "room-key-of-the-matrix";

interface Cell {
  readonly name: string;
  readonly face: Face;
  readonly point: Point;
  readonly told: readonly Expected[];
  readonly backend: BackendKind;
}

const CELLS: readonly Cell[] = BACKENDS.flatMap((backend) =>
  POINTS.flatMap((point) =>
    FACES.flatMap((face) => {
      const told = point.told[face];
      const name = `${backend}, ${face}: ${point.name}`;
      return told && name.includes(ONLY) ? [{ name, face, point, told, backend }] : [];
    }),
  ),
);

const recoveredMs = new Map<Cell, number>();
const results = new Map<Cell, PromiseWithResolvers<void>>(CELLS.map((cell) => [cell, Promise.withResolvers<void>()]));
let server: PostgresServer | undefined;
let hook: Hook;
let roomsUrl = "";

/** All cells run beside each other from the start; each test waits for its own. */
function startCells(): void {
  for (const backend of BACKENDS) {
    const waiting = CELLS.filter((cell) => cell.backend === backend);
    const work = async (): Promise<void> => {
      for (let cell = waiting.shift(); cell; cell = waiting.shift()) {
        const result = results.get(cell);
        await play(cell).then(result?.resolve, result?.reject);
      }
    };
    for (let count = 0; count < AT_ONCE[backend]; count++) void work();
  }
}

async function play(cell: Cell): Promise<void> {
  const place = server && cell.backend === "postgres" ? await severalMachines(server) : oneMachine();
  const { face, point } = cell;
  const rooms = { url: roomsUrl, key: ROOMS_KEY };
  await playCell({ face, point, place, rooms, hookUrl: hook.url }, async (seen) => {
    recoveredMs.set(cell, seen.recoveredMs);
    checkActs(cell, seen);
    checkHistory(cell, seen);
    await checkGoesOn(seen);
    if (face === "client") await checkFrames(cell, seen);
    else await checkEvents(seen);
    await checkRows(place, seen);
    if (cell.backend === "postgres") expect(seen.takenOverMs).toBeLessThan(TAKEN_OVER_WITHIN_MS);
  });
}

/** Nothing was done twice, and the model was told the truth about each act. */
function checkActs({ told }: Cell, seen: Seen): void {
  const truths = seen.told.map((each, index) => {
    const times = seen.acts[index] ?? 0;
    return (
      times <= 1 && (each === "unknown" || (each === "done" && times === 1) || (each === "not done" && times === 0))
    );
  });
  expect({ told: seen.told, acts: seen.acts, truths }).toMatchObject({ truths: told.map(() => true) });
  const isEither = (index: number): boolean => told[index] === "either";
  expect(seen.told.map((each, index) => (isEither(index) ? "either" : each))).toEqual(told);
}

/** No request was one that a provider refuses, and each turn of the play is in the history once. */
function checkHistory({ point }: Cell, seen: Seen): void {
  expect(seen.refusals).toEqual([]);
  const turns = point.play.flatMap((turn) => ["assistant", ...turn.map(() => "tool")]);
  expect(seen.history.map(({ role }) => role)).toEqual(["user", ...turns, "assistant"]);
}

/** The conversation takes another message, and the model answers it. */
async function checkGoesOn({ mesh, sessionId }: Seen): Promise<void> {
  const { status } = await mesh.call("POST", `/api/sessions/${sessionId}/query`, { query: "hello again" });
  expect(status).toBe(202);
  await until("the next answer", async () =>
    (await mesh.history(sessionId)).at(-1)?.content === "You said: hello again" ? true : undefined,
  );
}

/** The story of the session: without a gap, and everything that began in it ended once. */
async function checkEvents({ mesh, sessionId, told }: Seen): Promise<void> {
  const stream = await readStream(mesh.url, sessionId);
  await stream.waitFor(
    "the backlog's end",
    ({ type, payload }) => type === "session_state" && payload.state === "idle",
  );
  const stored = stream.frames.filter(({ id }) => id !== undefined);
  expect(stored.map(({ id }) => id)).toEqual(stored.map((_, index) => index + 1));
  const idsOf = (type: string, name: string): readonly unknown[] =>
    stored.flatMap((frame) => (frame.type === type ? [frame.payload[name]] : [])).sort();
  for (const [began, ended, name] of [
    ["device_tool_call", "device_tool_call.settled", "call_id"],
    ["ask.created", "ask.settled", "ask_id"],
    ["tool.called", "tool.finished", "tool_call_id"],
    ["run.queued", "run.finished", "run_id"],
  ] as const) {
    expect([ended, idsOf(ended, name)]).toEqual([ended, idsOf(began, name)]);
  }
  expect(idsOf("tool.called", "tool_call_id")).toHaveLength(told.length);
  expect(idsOf("run.finished", "run_id")).toHaveLength(2);
  await stream.close();
}

/** The story of the run, and the notices of it: each wait was said to begin and to end, once. */
async function checkFrames({ point }: Cell, { mesh, runId }: Seen): Promise<void> {
  const { body } = await mesh.call<{ events: readonly RunFrameView[] }>("GET", `/runs/${runId}/events`);
  expect(body.events.map(({ seq }) => seq)).toEqual(body.events.map((_, index) => index + 1));
  const expected = point.play.flatMap((turn) => [
    ...turn.map(() => "tool.call"),
    "suspend",
    "resume",
    ...turn.map(() => "tool.result"),
  ]);
  expect(body.events.map(({ type }) => type)).toEqual(["run.start", ...expected, "message", "run.end"]);
  const notices = ["run.ended", ...point.play.flatMap(() => ["run.resumed", "run.suspended"])].sort();
  const told = await until("all notices", async () => {
    const byId = new Map(noticesOf(runId).map(({ id, event }) => [id, event]));
    return byId.size >= notices.length ? [...byId.values()].sort() : undefined;
  });
  expect(told).toEqual(notices);
}

const received: CallbackNotice[] = [];

async function collectNotices(): Promise<never> {
  for (;;) received.push(JSON.parse((await hook.next()).body) as CallbackNotice);
}

function noticesOf(runId: string) {
  return received.flatMap((notice) => ("run_id" in notice && notice.run_id === runId ? [notice] : []));
}

/** Nothing is left open in the store. */
async function checkRows(place: Place, { told }: Seen): Promise<void> {
  expect((await place.rows("runs", "status")).map(({ status }) => status)).toEqual(["succeeded", "succeeded"]);
  expect((await place.rows("calls", "state")).map(({ state }) => state)).toEqual(told.map(() => "used"));
  const waits = (await place.rows("waits", "state")).map(({ state }) => state);
  expect([...new Set(waits)]).toEqual(["continued"]);
}

describe("a mesh is killed", { timeout: 240_000 }, () => {
  beforeAll(async () => {
    const rooms = startLeafmesh(["rooms", "serve", "--port", "0", "--key", ROOMS_KEY, "--json"]);
    [server, hook] = await Promise.all([postgresAvailable() ? startPostgres() : undefined, startHook()]);
    roomsUrl = String((await rooms.waitFor("ready")).url);
    void collectNotices();
    for (const { promise } of results.values()) promise.catch(() => {});
    startCells();
  });

  afterAll(async () => {
    await killAll();
    await Promise.all([hook?.close(), server?.stop()]);
    console.log(matrix());
  });

  it.each(CELLS)("$name", (cell) => results.get(cell)?.promise);
});

/** Milliseconds from the kill to the last answer, point by face. */
function matrix(): string {
  const line = (name: string, cells: readonly string[]): string =>
    `${name.padEnd(52)}${cells.map((cell) => cell.padStart(14)).join("")}`;
  const rows = BACKENDS.flatMap((backend) =>
    POINTS.map((point) =>
      line(
        `${backend}: ${point.name}`,
        FACES.map((face) => {
          const cell = CELLS.find((each) => each.backend === backend && each.point === point && each.face === face);
          return cell ? String(recoveredMs.get(cell) ?? "failed") : "-";
        }),
      ),
    ),
  );
  return [line("recovered within (ms)", FACES), ...rows].join("\n");
}
