/** A program that is killed in the middle of a call, and what it says when it is back. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { MeshDouble } from "../../testing/mesh-double.ts";

const program = join(import.meta.dirname, "../../testing/interrupted-executor.program.ts");

it("never runs the call again, and says that its outcome is unknown", { timeout: 20_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "leafmesh-killed-client-"));
  const mesh = await new MeshDouble().start();
  const at = new Date(Date.now() + 60_000).toISOString();
  const tool_calls = [{ id: "call_0", name: "act", arguments: {} }];
  const suspension = {
    kind: "external_wait",
    resume_contract: "result",
    deadline_at: at,
    prompt: { reason: "client_tools", timeout_s: 60, tool_calls },
  };
  const empty = { started_at: null, finished_at: null, replay_of: null, output: null, error: null };
  const state = {
    ...{ run_id: "r", session_id: "s", agent_slug: "a", status: "suspended", client_tools: "suspend", suspension },
    ...{ created_at: at, deadline_at: at, failure_class: null, failure_detail: null, ...empty },
  };
  const frame = (seq: number, type: string, data: object) =>
    mesh.append("/runs/r/stream", seq, { protocol: 2, seq, run_id: "r", type, segment_id: null, data });
  mesh.answer = ({ path }) =>
    path.endsWith("/state")
      ? { status: 200, body: state }
      : { status: 202, body: { run_id: "r", session_id: "s", status: "queued" } };
  frame(1, "suspend", suspension);

  const start = (act: string) =>
    spawn(process.execPath, ["--conditions=leafmesh-source", program, mesh.url, join(folder, "calls.jsonl"), act], {
      stdio: ["ignore", "pipe", "inherit"],
    });
  const first = start("hang");
  for await (const line of createInterface({ input: first.stdout })) if (line === "started") break;
  first.kill("SIGKILL");
  await once(first, "exit");

  const second = start("act");
  const resumes = () => mesh.posted.filter(({ path }) => path.endsWith("/resume"));
  await mesh.until(() => resumes().length === 1);
  expect(resumes()[0]?.body.value.tool_results).toEqual([
    { tool_call_id: "call_0", content: expect.stringMatching(/^error: outcome_unknown: /), is_error: true },
  ]);
  frame(2, "run.end", { status: "succeeded" });
  expect(await once(second, "exit")).toEqual([0, null]);
  await mesh.close();
  await rm(folder, { recursive: true });
});
