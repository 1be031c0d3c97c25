/** Runs that wait for their client, through the real command: processes that are killed meanwhile, one or several. */
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { CallbackNotice, RunFrameView, RunState } from "@leafmesh/protocol";
import { startOpenAIServer } from "@leafmesh/testkit";
import { type PostgresServer, postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { killAll, type RunningProcess, startLeafmesh } from "../support/process.ts";
import { type SeveralMeshes, startSeveral } from "../support/several-meshes.ts";
import { until } from "../support/until.ts";

type Model = Awaited<ReturnType<typeof startModel>>;

/** Calls the client's tool once a message and then quotes what it was told; strict about histories. */
function startModel() {
  return startOpenAIServer({
    async handler({ messages, tools }) {
      const last = messages.at(-1);
      if (last?.role === "tool") return { content: `RESULT ${String(last.content)}` };
      if (!tools) return { content: "I have no tools." };
      return { toolCalls: [{ name: "highlight", arguments: { selector: "#price" } }] };
    },
  });
}

/** Receives notices. */
async function startHook() {
  const notices: CallbackNotice[] = [];
  const server = createServer((incoming, response) => {
    let body = "";
    incoming.on("data", (chunk) => {
      body += chunk;
    });
    incoming.on("end", () => {
      notices.push(JSON.parse(body) as CallbackNotice);
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return { url, notices, close: () => server.close() };
}

const yaml = ({ baseUrl }: Model) => `name: suspended-runs
models:
  test: { base_url: "${baseUrl}", api_key: "model-key" }
tools:
  highlight:
    client_owned: true
    description: Highlight an element of the page the visitor is looking at.
    input_schema: { type: object, properties: { selector: { type: string } }, required: [selector] }
agents:
  guide:
    model: test/any
    prompt: Show the visitor around.
    tools: [highlight]
server:
  callbacks: { secret: webhook-secret, allow: ["http://127.0.0.1:*"] }
`;

async function submit(mesh: RunningMesh, more: object = {}): Promise<string> {
  const body = { agent_slug: "guide", input: { message: "where is the price?" }, client_tools: "suspend", ...more };
  const answer = await mesh.call<{ run_id: string }>("POST", "/runs", body);
  expect(answer.status).toBe(202);
  return answer.body.run_id;
}

async function stateOf(mesh: RunningMesh, runId: string): Promise<RunState> {
  return (await mesh.call<RunState>("GET", `/runs/${runId}/state`)).body;
}

function reaches(mesh: RunningMesh, runId: string, status: RunState["status"]): Promise<RunState> {
  return until(`the run is ${status}`, async () => {
    const state = await stateOf(mesh, runId);
    return state.status === status ? state : undefined;
  });
}

function resume(mesh: RunningMesh, { run_id, suspension }: RunState, content: string) {
  const tool_results = suspension?.prompt.tool_calls.map(({ id }) => ({ tool_call_id: id, content }));
  const body = { contract: "result", value: { tool_results } };
  return mesh.call<{ status: string }>("POST", `/runs/${run_id}/resume`, body);
}

async function framesOf(mesh: RunningMesh, runId: string): Promise<readonly RunFrameView[]> {
  const { body } = await mesh.call<{ events: readonly RunFrameView[] }>("GET", `/runs/${runId}/events`);
  expect(body.events.map(({ seq }) => seq)).toEqual(body.events.map((_, index) => index + 1));
  return body.events;
}

async function killed(mesh: RunningProcess): Promise<void> {
  mesh.kill("SIGKILL");
  await mesh.exited;
}

let model: Model;
let hook: Awaited<ReturnType<typeof startHook>>;

beforeAll(async () => {
  [model, hook] = await Promise.all([startModel(), startHook()]);
});

beforeEach(() => {
  hook.notices.length = 0;
});

afterAll(async () => {
  await killAll();
  hook?.close();
  await model?.close();
});

describe("a run that waits, on one machine", () => {
  it("survives SIGKILL; its client's answer goes on with it, and each notice arrives", async () => {
    const folder = newFolder();
    const first = await startMesh({ yaml: yaml(model), folder });
    const runId = await submit(first, { callback_url: hook.url });
    await reaches(first, runId, "suspended");
    await killed(first);
    const second = await startMesh({ yaml: yaml(model), folder });
    const state = await stateOf(second, runId);
    expect(state).toMatchObject({ status: "suspended", suspension: { prompt: { reason: "client_tools" } } });
    expect(await resume(second, state, "marked")).toMatchObject({ status: 202, body: { status: "queued" } });
    const ended = await reaches(second, runId, "succeeded");
    expect(ended.output).toEqual({ result: { message: "RESULT marked" } });
    expect(await resume(second, state, "marked")).toMatchObject({ status: 202, body: { status: "succeeded" } });
    expect((await framesOf(second, runId)).map(({ type }) => type)).toEqual([
      "run.start",
      "tool.call",
      "suspend",
      "resume",
      "tool.result",
      "message",
      "run.end",
    ]);
    const told = await until("all notices", async () => {
      const byId = new Map(hook.notices.map(({ id, event }) => [id, event]));
      return byId.size === 3 ? [...byId.values()].sort() : undefined;
    });
    expect(told).toEqual(["run.ended", "run.resumed", "run.suspended"]);
    await second.stop();
  });

  it("ends at the next start when it ran out while no process was there", async () => {
    const folder = newFolder();
    const first = await startMesh({ yaml: yaml(model), folder });
    const runId = await submit(first, { client_tool_timeout_s: 5 });
    const { suspension } = await reaches(first, runId, "suspended");
    await killed(first);
    const deadline = Date.parse(suspension?.deadline_at ?? "");
    await until("the deadline has passed", async () => (Date.now() > deadline ? true : undefined));
    const second = await startMesh({ yaml: yaml(model), folder });
    expect(await stateOf(second, runId)).toMatchObject({
      status: "timed_out",
      failure_class: "timeout",
      failure_detail: "client_tool_deadline",
    });
    await second.stop();
  });

  it("needs its tool to be declared: without it the mesh does not start, and says so", async () => {
    const file = join(newFolder(), "mesh.yaml");
    writeFileSync(file, yaml(model).replace("tools: [highlight]", "tools: [highlight, scroll]"));
    const child = startLeafmesh(["run", file, "--port", "0"]);
    expect(await child.exited).toBe(3);
    expect(child.output()).toContain("scroll (agent guide)");
  });
});

describe.skipIf(!postgresAvailable())("a run that waits, on several machines", () => {
  let server: PostgresServer;
  let meshes: SeveralMeshes;

  beforeAll(async () => {
    server = await startPostgres();
  });

  beforeEach(async () => {
    meshes = await startSeveral(server, yaml(model));
  });

  afterEach(async () => {
    await meshes.close();
  });

  afterAll(async () => {
    await server?.stop();
  });

  it("is answered through any of them, and read from any", async () => {
    const [a, b] = await Promise.all([meshes.start(), meshes.start()]);
    const runId = await submit(a, { session_key: "visitor-42", callback_url: hook.url });
    const state = await reaches(b, runId, "suspended");
    const [one, other] = await Promise.all([resume(a, state, "marked"), resume(b, state, "marked")]);
    expect([one.status, other.status]).toEqual([202, 202]);
    await reaches(b, runId, "succeeded");
    expect(await framesOf(a, runId)).toEqual(await framesOf(b, runId));
    const next = await submit(b, { session_key: "visitor-42", client_tools: "end" });
    expect((await reaches(a, next, "succeeded")).session_id).toBe(state.session_id);
    await until("the notice of the end", async () =>
      hook.notices.some(({ event, run_id }) => event === "run.ended" && run_id === runId) ? true : undefined,
    );
  });

  it("ends at its deadline in another process when its own was killed", async () => {
    const a = await meshes.start();
    const runId = await submit(a, { client_tool_timeout_s: 5 });
    await reaches(a, runId, "suspended");
    const b = await meshes.start();
    await killed(a);
    const ended = await reaches(b, runId, "timed_out");
    expect(ended).toMatchObject({ failure_detail: "client_tool_deadline" });
    expect((await framesOf(b, runId)).filter(({ type }) => type === "run.end")).toHaveLength(1);
  });

  it("goes on in another process when its own was killed", async () => {
    const [a, b] = await Promise.all([meshes.start(), meshes.start()]);
    const runId = await submit(a);
    const state = await reaches(a, runId, "suspended");
    await killed(a);
    expect((await resume(b, state, "marked")).status).toBe(202);
    expect((await reaches(b, runId, "succeeded")).output).toEqual({ result: { message: "RESULT marked" } });
  });
});
