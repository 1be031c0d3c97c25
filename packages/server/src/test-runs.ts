/** A client of runs, and a model that a strict provider would accept. For tests of this package only. */
import { request as httpRequest } from "node:http";
import type { DeclaredTool, Model, ModelAnswer, ModelRequest } from "@leafmesh/core";
import type { RunFrameView } from "@leafmesh/protocol";
import { type ChatRequest, findRefusal } from "@leafmesh/testkit";
import { encodeRequest } from "../../core/src/models/openai-request.ts";
import { startTestServer, type TestServer, type TestServerOptions } from "./test-server.ts";

const inputSchema = { type: "object", properties: { selector: { type: "string" } }, required: ["selector"] };

export const HIGHLIGHT: DeclaredTool = {
  kind: "client",
  name: "highlight",
  description: "Highlight an element of the page the visitor is looking at.",
  inputSchema,
  effect: "read",
};
export const SCROLL: DeclaredTool = { ...HIGHLIGHT, name: "scroll", description: "Scroll the page." };

export function asks(...calls: readonly (readonly [name: string, args?: unknown, id?: string])[]): ModelAnswer {
  return {
    content: null,
    toolCalls: calls.map(([name, args = { selector: "#price" }, id], index) => ({
      id: id ?? `call-${index + 1}`,
      name,
      arguments: JSON.stringify(args),
    })),
    finishReason: "tool_calls",
  };
}

export function says(content: string): ModelAnswer {
  return { content, toolCalls: [], finishReason: "stop" };
}

/** One answer after the other; refuses a history that a strict provider refuses. */
export function scriptedModel(...answers: readonly ModelAnswer[]) {
  const requests: ModelRequest[] = [];
  const answer = strictly(requests, async () => {
    const next = answers[requests.length - 1];
    if (!next) throw new Error(`no answer for call ${requests.length}`);
    return next;
  });
  return { requests, answer };
}

/** The model behind what a strict provider refuses; `requests` gets what it is asked. */
export function strictly(requests: ModelRequest[], answer: Model["answer"]): Model["answer"] {
  return async (request, options) => {
    const refusal = findRefusal(toChatRequest(request));
    if (refusal) throw new Error(`a provider would refuse this: ${refusal.message}`);
    requests.push(request);
    return answer(request, options);
  };
}

/** Texts of the tool messages of a request, in order. */
export function toolTexts(request: ModelRequest | undefined): readonly string[] {
  return (request?.messages ?? []).flatMap((message) => (message.role === "tool" ? [message.content] : []));
}

export interface RunsServer extends TestServer {
  readonly requests: readonly ModelRequest[];
  /** Submits a run with `client_tools: "suspend"` unless told otherwise; its id. */
  submit(more?: Record<string, unknown>): Promise<string>;
  resume(runId: string, results: readonly unknown[]): ReturnType<TestServer["call"]>;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape are looked into
  state(runId: string): Promise<any>;
  /** Frames from the stream, until `until` says that it was the last one wanted. */
  frames(
    runId: string,
    until: (frame: RunFrameView) => boolean,
    headers?: Record<string, string>,
    query?: string,
  ): Promise<RunFrameView[]>;
}

export async function startRunsServer(
  answers: readonly ModelAnswer[],
  options: Omit<TestServerOptions, "answer"> = {},
): Promise<RunsServer> {
  const { requests, answer } = scriptedModel(...answers);
  const server = await startTestServer({
    declaredTools: [HIGHLIGHT, SCROLL],
    agents: { helper: { tools: ["highlight", "scroll"] } },
    ...options,
    limits: { runTimeoutMs: 3_600_000, ...options.limits },
    answer,
  });
  const submit: RunsServer["submit"] = async (more = {}) => {
    const json = { agent_slug: "helper", input: { message: "where is the price?" }, client_tools: "suspend", ...more };
    const { status, body } = await server.call("POST", "/runs", { json });
    if (status !== 202) throw new Error(`${status} ${JSON.stringify(body)}`);
    return body.run_id;
  };
  return Object.assign(server, {
    requests,
    submit,
    resume: (runId: string, tool_results: readonly unknown[]) =>
      server.call("POST", `/runs/${runId}/resume`, { json: { contract: "result", value: { tool_results } } }),
    state: async (runId: string) => (await server.call("GET", `/runs/${runId}/state`)).body,
    frames: (runId: string, until: (frame: RunFrameView) => boolean, headers = {}, query = "") =>
      readFrames(`${server.url}/runs/${runId}/stream${query}`, until, headers),
  });
}

export const isType =
  (type: string, nth = 1): ((frame: RunFrameView) => boolean) =>
  (frame) =>
    frame.type === type && --nth === 0;

function readFrames(
  url: string,
  until: (frame: RunFrameView) => boolean,
  headers: Record<string, string>,
): Promise<RunFrameView[]> {
  return new Promise((resolve, reject) => {
    const frames: RunFrameView[] = [];
    const request = httpRequest(url, { headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
        for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
          const lines = text.slice(0, end).split("\n");
          text = text.slice(end + 2);
          const data = lines.find((line) => line.startsWith("data: "))?.slice("data: ".length);
          if (data === undefined) continue;
          const frame: RunFrameView = JSON.parse(data);
          if (lines[0] !== `id: ${frame.seq}`) reject(new Error(`the id is not the seq: ${lines[0]}`));
          frames.push(frame);
          if (until(frame)) {
            resolve(frames);
            request.destroy();
          }
        }
      });
      response.on("end", () => resolve(frames));
    });
    request.on("error", reject).end();
  });
}

/** As it goes over the wire. */
export function toChatRequest(request: ModelRequest): ChatRequest {
  return JSON.parse(encodeRequest(request, new Set()));
}
