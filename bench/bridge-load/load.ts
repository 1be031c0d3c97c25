/**
 * Conversations that each have their client's tool called again and again, over several mesh processes: said to one,
 * followed on another, answered through a third. Counts what was lost, came twice, or did not end.
 */
import { randomUUID } from "node:crypto";
import { Agent, request } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { type OpenAIServer, startOpenAIServer } from "@leafmesh/testkit";
import { followEvents } from "./follow.ts";

const TOOL = { tool_id: "device_work", description: "Do a piece of work.", parameters: { type: "object" } };
/** A call that has not ended by then is stuck. */
const STUCK_AFTER_MS = 30_000;

export interface LoadReport {
  /** Calls whose run ended, with the client's answer. */
  readonly calls: number;
  readonly seconds: number;
  /** Messages that were taken and whose run had another end. */
  readonly lost: number;
  /** Calls that were shown, or results that were given to the model, more than once. */
  readonly doubled: number;
  readonly stuck: number;
  /** From a result's sending to the model's next request, in milliseconds. */
  readonly continuedMs: readonly number[];
}

/** Asks for the tool with what it was told, and says the results back; knows when each result came. */
export interface WorkModel {
  readonly server: OpenAIServer;
  /** Piece of work → when its result was first given, and how often. */
  readonly given: ReadonlyMap<string, { readonly atMs: number; readonly times: number }>;
}

export async function startWorkModel(): Promise<WorkModel> {
  const given = new Map<string, { atMs: number; times: number }>();
  const server = await startOpenAIServer({
    handler({ messages }) {
      const last = messages.at(-1);
      if (last?.role !== "tool") return { toolCalls: [{ name: TOOL.tool_id, arguments: { work: last?.content } }] };
      const work = /"work":"([^"]+)"/.exec(String(last.content))?.[1] ?? "none";
      const before = given.get(work);
      given.set(work, { atMs: before?.atMs ?? performance.now(), times: (before?.times ?? 0) + 1 });
      return { content: `DONE ${work}` };
    },
  });
  return { server, given };
}

/** Keeps `sessions` conversations busy for `seconds`, then lets each end what it has begun. */
export async function loadBridge(
  meshes: readonly string[],
  model: WorkModel,
  { sessions, seconds }: { readonly sessions: number; readonly seconds: number },
): Promise<LoadReport> {
  const agent = new Agent({ keepAlive: true, maxSockets: 512 });
  const name = randomUUID();
  const report = { calls: 0, lost: 0, doubled: 0, stuck: 0 };
  const sentAtMs = new Map<string, number>();
  const begunAt = performance.now();
  const endAt = begunAt + seconds * 1000;

  const meshOf = (index: number): string => meshes[index % meshes.length] ?? "";
  const converse = async (index: number): Promise<void> => {
    const opened = await post(agent, `${meshOf(index)}/api/sessions`, { context: { device_tools: [TOOL] } });
    const path = `/api/sessions/${String(opened.body.session_id)}`;
    const stream = await followEvents(agent, `${meshOf(index + 1)}${path}/stream`);
    try {
      for (let count = 1; performance.now() < endAt; count++) {
        const work = `${name}-${index}-${count}`;
        const said = await post(agent, `${meshOf(index + count)}${path}/query`, { query: work });
        if (said.status !== 202) throw new Error(`a message was refused: ${said.status} ${JSON.stringify(said.body)}`);
        const end = await stuckOr(work, said.body.run_id);
        if (end === "stuck") return void report.stuck++;
        if (end === `DONE ${work}`) report.calls++;
        else report.lost++;
        if (stream.count("device_tool_call") !== count || model.given.get(work)?.times !== 1) report.doubled++;
      }
    } finally {
      stream.close();
    }

    async function stuckOr(work: string, runId: unknown): Promise<unknown> {
      const call = await stream.next("device_tool_call", ({ args }) => isWork(args, work), STUCK_AFTER_MS);
      if (!call) return "stuck";
      const { call_id, call_token } = call;
      sentAtMs.set(work, performance.now());
      const url = `${meshOf(index + 2)}${path}/device_tools/${String(call_id)}/result`;
      const answered = await post(agent, url, { call_token, status: "ok", result: { work } });
      if (answered.status !== 200) return `the result was refused: ${answered.status}`;
      const finished = await stream.next("run.finished", ({ run_id }) => run_id === runId, STUCK_AFTER_MS);
      return finished ? finished.reply : "stuck";
    }
  };

  try {
    await Promise.all(Array.from({ length: sessions }, (_, index) => converse(index)));
  } finally {
    agent.destroy();
  }
  const continuedMs = [...sentAtMs].flatMap(([work, atMs]) => {
    const given = model.given.get(work);
    return given ? [given.atMs - atMs] : [];
  });
  return { ...report, seconds: (performance.now() - begunAt) / 1000, continuedMs };
}

function isWork(args: unknown, work: string): boolean {
  return typeof args === "object" && args !== null && "work" in args && args.work === work;
}

async function post(
  agent: Agent,
  url: string,
  body: object,
): Promise<{ status: number; body: Readonly<Record<string, unknown>> }> {
  const text = JSON.stringify(body);
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, method: "POST", headers }, (response) => {
      textOf(response).then(
        (answer) => resolve({ status: response.statusCode ?? 0, body: JSON.parse(answer) }),
        reject,
      );
    });
    sent.on("error", reject);
    sent.end(text);
  });
}
