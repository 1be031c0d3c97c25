/** One cell: a mesh is killed at its point, another goes on, and everything is held against what must be true. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { HistoryEntry, RunState } from "@leafmesh/protocol";
import { findRefusal, type OpenAIServer } from "@leafmesh/testkit";
import { startTcpProxy, type TcpProxy } from "@leafmesh/testkit/tcp-proxy";
import { readStream } from "../support/event-stream.ts";
import { newFolder, type RunningMesh } from "../support/mesh.ts";
import { type RunningProcess, root, startNode } from "../support/process.ts";
import { until } from "../support/until.ts";
import type { Point, Told } from "./cells.ts";
import { SAID, startPlayModel, toldIn } from "./model.ts";
import type { Place } from "./place.ts";
import { ACT, DEVICE, type Face, JOURNAL, messageFor } from "./wanted.ts";

export interface Seen {
  /** From the last sign of life to the last answer of the play. */
  readonly recoveredMs: number;
  /** The same from when another process was there as well. */
  readonly takenOverMs: number;
  /** What the model was told of each act. */
  readonly told: readonly Told[];
  /** How often each act was done, by the executor's journal. */
  readonly acts: readonly number[];
  readonly history: readonly HistoryEntry[];
  readonly sessionId: string;
  readonly runId: string;
  readonly executor: RunningProcess;
  /** The process that went on, still running. */
  readonly mesh: RunningMesh;
  /** Rules of a provider that some request of the mesh broke. */
  readonly refusals: readonly unknown[];
}

export interface CellOptions {
  readonly face: Face;
  readonly point: Point;
  readonly place: Place;
  /** Address and key of a room service that outlives the mesh. */
  readonly rooms: { readonly url: string; readonly key: string };
  readonly hookUrl: string;
}

/** Plays it and gives what was seen to `judge` before everything is closed. */
export async function playCell(options: CellOptions, judge: (seen: Seen) => Promise<void>): Promise<void> {
  const model = await startPlayModel(options.face, options.point.sign === "half an answer");
  const running: RunningProcess[] = [];
  let link: TcpProxy | undefined;
  try {
    const yaml = yamlOf(options, model);
    const first = await options.place.startFirst(yaml, options.point.stopAt);
    running.push(first);
    link = await startTcpProxy(first.port);
    const seen = await killAndRecover({ ...options, first, link, yaml, model, running });
    await judge(seen);
  } finally {
    for (const each of running) each.kill("SIGKILL");
    await Promise.all(running.map(({ exited }) => exited));
    await link?.stop();
    await model.close();
    await options.place.close();
  }
}

interface Scene extends CellOptions {
  readonly first: RunningMesh;
  readonly link: TcpProxy;
  readonly yaml: string;
  readonly model: OpenAIServer;
  readonly running: RunningProcess[];
}

async function killAndRecover(scene: Scene): Promise<Seen> {
  const { face, point, place, first, link, yaml, model, running } = scene;
  const folder = newFolder();
  const message = messageFor(point.play);
  const startExecutor = async (id: string): Promise<RunningProcess> => {
    const program = join(root, "tests/kill-matrix/executor.program.ts");
    const kind = face === "bridge" || face === "client" ? face : "device";
    const url = `http://127.0.0.1:${link.port}`;
    const child = startNode(["--conditions=leafmesh-source", program, kind, url, folder, id]);
    running.push(child);
    await child.waitFor("ready");
    return child;
  };

  const begun = await begin(scene, message, startExecutor);
  const { sessionId, runId } = begun;
  await seeSign(scene, begun);
  const stoppedAt = performance.now();

  const next = place.kind === "postgres" ? await place.startNext(yaml) : undefined;
  const nextAt = performance.now();
  first.kill("SIGKILL");
  await first.exited;
  const killedAt = point.stopAt?.how === "freeze" ? stoppedAt : performance.now();
  const mesh = next ?? (await place.startNext(yaml));
  running.push(mesh);
  link.retarget(mesh.port);
  link.set({ stallDown: false });
  link.cut();
  const executor = begun.executor ?? (await startExecutor(runId));
  executor.kill("SIGUSR2");

  const reply = await until("the last answer of the play", async () => {
    const last = (await mesh.history(sessionId)).at(-1);
    return last?.role === "assistant" && last.content?.startsWith(SAID) ? last.content : undefined;
  });
  const recoveredAt = performance.now();
  const journal = join(folder, JOURNAL);
  const done = existsSync(journal) ? readFileSync(journal, "utf8").trim().split("\n") : [];
  return {
    recoveredMs: Math.round(recoveredAt - killedAt),
    takenOverMs: recoveredAt - Math.max(killedAt, nextAt),
    told: toldIn(reply).map(meaningOf),
    acts: point.play.flat().map(({ number }) => done.filter((line) => line === String(number)).length),
    history: await mesh.history(sessionId),
    sessionId,
    runId,
    executor,
    mesh,
    refusals: model.requests.flatMap(({ body }) => (body && findRefusal(body)) ?? []),
  };
}

interface Begun {
  readonly sessionId: string;
  readonly runId: string;
  /** Not there yet when nothing is to reach it. */
  readonly executor: RunningProcess | undefined;
}

/** Sends the message, with somebody there who does what it makes the agent ask for. */
async function begin(
  { face, point, first, link, hookUrl }: Scene,
  message: string,
  startExecutor: (id: string) => Promise<RunningProcess>,
): Promise<Begun> {
  if (face === "client") {
    const { body } = await first.call<RunState>("POST", "/runs", {
      agent_slug: "helper",
      input: { message },
      client_tools: "suspend",
      callback_url: hookUrl,
    });
    const executor = point.unseen ? undefined : await startExecutor(body.run_id);
    return { sessionId: body.session_id, runId: body.run_id, executor };
  }
  const declared = [{ tool_id: ACT.deviceTool, description: "Acts once.", parameters: { type: "object" } }];
  const context = face === "bridge" ? { context: { device_tools: declared } } : { device: DEVICE };
  const opened = await first.call<RunState>("POST", "/api/sessions", context);
  const sessionId = opened.body.session_id;
  const executor = await startExecutor(sessionId);
  if (point.unseen) link.set({ stallDown: true });
  const asked = await first.call<RunState>("POST", `/api/sessions/${sessionId}/query`, { query: message });
  return { sessionId, runId: asked.body.run_id, executor };
}

/** Resolves when the mesh is at the point. */
async function seeSign({ point, first }: Scene, { sessionId, executor }: Begun): Promise<void> {
  switch (point.sign) {
    case "stopped":
      await first.waitFor("stopped");
      return;
    case "acting":
      await executor?.waitFor("acting");
      return;
    case "delivered":
      await Promise.all([executor?.waitFor("delivered"), first.waitFor("stopped")]);
      return;
    case "half an answer": {
      const stream = await readStream(first.url, sessionId);
      await stream.waitFor("half an answer", ({ type }) => type === "model.delta");
      await stream.close();
    }
  }
}

/** What a model takes a result to say. */
function meaningOf(result: string): Told {
  if (/may_have_happened":true|It may have happened/.test(result)) return "unknown";
  if (/"outcome":"done"|"status":"ok"|^\{"acted":/.test(result)) return "done";
  return /"outcome":"(unreachable|not_joined)"|nothing happened/.test(result) ? "not done" : "unclear";
}

function yamlOf({ face, rooms }: CellOptions, model: OpenAIServer): string {
  const outside = `\n  outside: { provider: room, url: "${rooms.url}", api_key: "${rooms.key}" }`;
  const agent = {
    room: "device: { connection: phones }",
    "rooms service": "device: { connection: phones, room: outside }",
    bridge: "",
    client: `tools: [${ACT.clientTool}]`,
  }[face];
  return `name: kill-matrix
models:
  test: { base_url: "${model.baseUrl}", api_key: model-key }
connections:
  phones: { provider: direct }${face === "rooms service" ? outside : ""}
tools:
  ${ACT.clientTool}: { client_owned: true, description: Acts once., input_schema: { type: object } }
agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    ${agent}
server:
  callbacks: { secret: webhook-secret, allow: ["http://127.0.0.1:*"] }
`;
}
