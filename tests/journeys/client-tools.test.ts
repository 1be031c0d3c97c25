/** The client library against the real command: the examples, a lost connection, a killed client, the terminal. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, createExecutor, type MeshEvent } from "@leafmesh/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { killAll, root, startLeafmesh } from "../support/process.ts";

const example = join(root, "examples/client-tools");
const folder = mkdtempSync(join(tmpdir(), "leafmesh-client-tools-"));
let mesh: RunningMesh;

beforeAll(async () => {
  const yaml = readFileSync(join(example, "mesh.yaml"), "utf8").replace("./script.yaml", join(example, "script.yaml"));
  mesh = await startMesh({ yaml, folder, env: { EXAMPLE_FOLDER: folder } });
});
afterAll(async () => {
  await mesh.stop();
  await killAll();
});

async function runExample(file: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, ["--conditions=leafmesh-source", join(example, file)], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, LEAFMESH_URL: mesh.url, LEDGER: join(folder, "calls.jsonl") },
  });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr.on("data", (chunk) => {
    output += chunk;
  });
  const [code] = await once(child, "close");
  return { code, output };
}

describe("the examples", () => {
  it.each([
    ["device-tools.ts", "I have told her.\n"],
    ["run-tools.ts", "It is there, highlighted.\nThere is no price on this page.\n"],
  ])("%s checks itself", async (file, output) => {
    expect(await runExample(file)).toEqual({ code: 0, output });
  });
});

const sms = (run: () => unknown) => ({
  device_send_sms: { description: "Send an SMS.", parameters: { type: "object" }, run },
});

describe("a call over the bridge", () => {
  it("is answered although the stream is lost while it runs", async () => {
    const lost = new AbortController();
    const client = createClient({
      url: mesh.url,
      random: () => 0,
      fetch: (input, init) => {
        const stream = String(input).endsWith("/stream") && !lost.signal.aborted;
        const signals = [init?.signal, stream ? lost.signal : undefined].filter(
          (signal) => signal instanceof AbortSignal,
        );
        return fetch(input, { ...init, signal: AbortSignal.any(signals) });
      },
    });
    const ran: string[] = [];
    const executor = createExecutor({
      tools: sms(async () => {
        ran.push("sms");
        lost.abort(new Error("the network is gone"));
        return { delivered: true };
      }),
    });
    const session = await client.sessions.create({ entry_point: "chat" });
    const seen: MeshEvent[] = [];
    const ended = Promise.withResolvers<void>();
    const attachment = await executor.attach(session, {
      onEvent: (event) => {
        seen.push(event);
        if (event.type === "run.finished") ended.resolve();
      },
    });
    await session.query({ query: "I will be late.", context: { device_tools: executor.deviceTools } });
    await ended.promise;
    const stored = seen.flatMap(({ seq }) => (seq === undefined ? [] : [seq]));
    expect(stored).toEqual(stored.map((_, index) => index + 1));
    expect(seen.find(({ type }) => type === "run.finished")?.payload).toMatchObject({ reply: "I have told her." });
    expect(ran).toEqual(["sms"]);
    await attachment.stop();
    await executor.close();
  });

  it("that a person refuses is a failed step", async () => {
    const client = createClient({ url: mesh.url });
    const executor = createExecutor({ tools: sms(() => ({ delivered: true })), allow: () => "SMS is switched off" });
    const session = await client.sessions.create({ entry_point: "chat" });
    await executor.attach(session);
    const end = await session.ask({ query: "I will be late.", context: { device_tools: executor.deviceTools } });
    expect(end.reply).toContain("permission_denied");
    expect(end.reply).toContain("SMS is switched off");
    await executor.close();
  });

  it("is listed while it waits, with its token for an executor alone", async () => {
    const client = createClient({ url: mesh.url });
    const began = Promise.withResolvers<void>();
    const release = Promise.withResolvers<unknown>();
    const executor = createExecutor({
      tools: sms(() => {
        began.resolve();
        return release.promise;
      }),
    });
    const session = await client.sessions.create({ entry_point: "chat" });
    await executor.attach(session);
    const ended = session.ask({ query: "I will be late.", context: { device_tools: executor.deviceTools } });
    await began.promise;
    const [shown] = await session.openDeviceToolCalls();
    const [held] = await session.openDeviceToolCalls({ executor: true });
    expect(shown).toMatchObject({ tool_id: "device_send_sms", args: { to: "+15550001234" } });
    expect(shown?.call_token).toBeUndefined();
    expect(held?.call_token).toMatch(/^\S{20,}$/);
    release.resolve({ delivered: true });
    expect(await ended).toMatchObject({ status: "succeeded", reply: "I have told her." });
    expect(await session.openDeviceToolCalls()).toEqual([]);
    await executor.close();
  });
});

describe("a suspended run", () => {
  it("is shown by leafmesh chat, and goes on when its client comes back", async () => {
    const client = createClient({ url: mesh.url });
    const run = await client.runs.submit({
      agent_slug: "site_guide",
      input: { message: "Where is the price?" },
      client_tools: "suspend",
    });
    for await (const { type } of run.frames()) if (type === "suspend") break;
    const { session_id: sessionId, suspension } = await run.state();
    expect(suspension?.prompt.tool_calls).toMatchObject([{ name: "highlight", arguments: { selector: "#price" } }]);

    const chat = startLeafmesh(["chat", "--url", mesh.url, "--session", sessionId, "--message", "Where is the price?"]);
    while (!chat.output().includes("suspended")) await new Promise((turn) => setTimeout(turn, 20));
    expect(chat.output()).toContain(`run ${run.id} waits for its client until ${suspension?.deadline_at}: highlight(`);

    const executor = createExecutor({
      tools: { highlight: { description: "d", parameters: {}, run: () => "highlighted 1 element" } },
    });
    expect(await executor.serveRun(run)).toMatchObject({
      status: "succeeded",
      output: { result: { message: "It is there, highlighted." } },
    });
    await executor.close();
    chat.kill("SIGTERM");
    await chat.exited;
  });

  it("that nobody answers ends timed_out, and its late client runs nothing", async () => {
    const client = createClient({ url: mesh.url });
    const run = await client.runs.submit({
      agent_slug: "site_guide",
      input: { message: "Where is the price?" },
      client_tools: "suspend",
      client_tool_timeout_s: 5,
    });
    expect(await run.finished()).toMatchObject({
      status: "timed_out",
      failure_class: "timeout",
      failure_detail: "client_tool_deadline",
    });
    const ran: string[] = [];
    const executor = createExecutor({
      tools: { highlight: { description: "d", parameters: {}, run: () => ran.push("late") } },
    });
    expect(await executor.serveRun(run)).toMatchObject({ status: "timed_out" });
    await executor.idle();
    expect(ran).toEqual([]);
    await expect(run.resume([{ tool_call_id: "x", content: "late" }])).rejects.toMatchObject({
      status: 409,
      code: "not_suspended",
    });
    await executor.close();
  });
});
