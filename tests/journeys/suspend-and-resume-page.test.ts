/** docs/suspend-and-resume.md, as it stands: its mesh runs, its requests are sent, and what it shows comes back. */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type OpenAIServer, startOpenAIServer } from "@leafmesh/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Hook, startHook } from "../support/hook.ts";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { killAll } from "../support/process.ts";

const page = readFileSync(resolve(import.meta.dirname, "../../docs/suspend-and-resume.md"), "utf8");
const blocks = (language: string): readonly string[] =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, "gms"))].map((match) => match[1] ?? "");
const [mesh_yaml = ""] = blocks("yaml");
const [queued = "", suspended = ""] = blocks("json");
const [program = ""] = blocks("ts");

/** What a `curl` of the page sends. */
function requestOf(command: string): { readonly path: string; readonly body: Record<string, unknown> } {
  const [, path = "", json = ""] =
    /^curl -s http:\/\/127\.0\.0\.1:18820(\S+) .*? -d '(.*)'$/s.exec(command.trim()) ?? [];
  return { path, body: JSON.parse(json) };
}
const [submit, resume] = blocks("sh").map(requestOf);

const SECRET = "the-secret-of-the-app";
let model: OpenAIServer;
let hook: Hook;
let mesh: RunningMesh;

beforeAll(async () => {
  hook = await startHook();
  model = await startOpenAIServer({
    handler({ messages }) {
      if (messages.at(-1)?.role === "tool") return { content: "The price is marked." };
      return { toolCalls: [{ id: "call-1", name: "highlight", arguments: { selector: "#price" } }] };
    },
  });
  mesh = await startMesh({
    yaml: `${mesh_yaml}server: { callbacks: { secret: ${SECRET}, allow: ["http://127.0.0.1:*"] } }\n`,
    env: { OPENAI_API_KEY: "none", OPENAI_BASE_URL: model.baseUrl },
  });
});
afterAll(async () => {
  await mesh?.stop();
  await killAll();
  await Promise.all([model?.close(), hook?.close()]);
});

interface Frame {
  readonly type: string;
  readonly seq: number;
  readonly data: { readonly deadline_at?: string };
}

/** The frames of a run's stream, as they come. */
async function* framesOf(runId: string): AsyncGenerator<Frame> {
  const response = await fetch(`${mesh.url}/runs/${runId}/stream`);
  let text = "";
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data !== undefined) yield JSON.parse(data) as Frame;
    }
  }
}

it("runs through its cycle word for word", async () => {
  if (!submit || !resume) throw new Error("the page shows no requests");
  const { status, body } = await mesh.call<Record<string, string>>("POST", submit.path, submit.body);
  expect(status).toBeLessThan(300);
  const { run_id = "", session_id = "" } = body;
  expect(body).toEqual({ ...JSON.parse(queued), run_id, session_id });

  const types: string[] = [];
  for await (const frame of framesOf(run_id)) {
    types.push(frame.type);
    if (frame.type === "suspend") {
      const shown = JSON.parse(suspended);
      const { deadline_at } = frame.data;
      expect(deadline_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00$/);
      expect(frame).toEqual({ ...shown, run_id, data: { ...shown.data, deadline_at } });
      const taken = await mesh.call("POST", resume.path.replace("run_01", run_id), resume.body);
      expect([taken.status, taken.body]).toMatchObject([202, { status: "queued" }]);
    }
    if (frame.type === "run.end") break;
  }
  const documented = ["suspend", "resume", "tool.result", "message", "run.end"];
  expect(types.filter((type) => documented.includes(type))).toEqual(documented);
});

it("shows how a notice is checked", async () => {
  if (!submit) throw new Error("the page shows no requests");
  await mesh.call("POST", submit.path, { ...submit.body, session_key: "visitor-43", callback_url: hook.url });
  const { headers, body } = await hook.next();
  const file = join(newFolder(), "notice.ts");
  writeFileSync(file, program);
  const { isFromMesh } = (await import(pathToFileURL(file).href)) as {
    isFromMesh(headers: Headers, body: string, secret: string): boolean;
  };
  const given = new Headers(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  expect(JSON.parse(body)).toMatchObject({ event: "run.suspended" });
  expect(isFromMesh(given, body, SECRET)).toBe(true);
  expect(isFromMesh(given, `${body} `, SECRET)).toBe(false);
  expect(isFromMesh(given, body, "another")).toBe(false);
});
