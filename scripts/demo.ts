/**
 * The main job on one machine, with no account and no key: a mesh, a simulated phone in a process of its own, one
 * request, the ask's timeline and the reply.
 *
 *   npm run demo
 *   npm run demo -- --outcome declined      (or any other of the seven outcomes)
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

/** How each outcome comes about; the phone does the rest. */
const SCENES = {
  done: { behave: "done" },
  failed: { behave: "fail" },
  declined: { behave: "decline" },
  sent_for_approval: { behave: "approve-later" },
  not_joined: { behave: "not-allowed" },
  unreachable: { behave: "done", entryPoint: "without_rooms" },
  refused: { behave: "done", message: "Is the battery of my tablet OK?" },
} as const satisfies Record<string, { behave: string; entryPoint?: string; message?: string }>;

type Scene = keyof typeof SCENES;

const { values } = parseArgs({ options: { outcome: { type: "string", default: "done" } } });
if (!(values.outcome in SCENES)) {
  console.error(`demo: --outcome is one of ${Object.keys(SCENES).join(", ")}`);
  process.exit(2);
}
const expected = values.outcome as Scene;
const scene: { behave: string; entryPoint?: string; message?: string } = SCENES[expected];

const root = resolve(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "leafmesh-demo-"));
const children: ChildProcess[] = [];

function leafmesh(args: readonly string[]): ChildProcess {
  const child = spawn(
    process.execPath,
    ["--conditions=leafmesh-source", join(root, "packages/cli/src/main.ts"), ...args],
    { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, DEMO_FOLDER: folder, NO_COLOR: "1" } },
  );
  children.push(child);
  child.stderr?.on("data", (chunk: Buffer) => errors.push(chunk.toString()));
  return child;
}

const errors: string[] = [];

/** The first JSON line of `child` that `matches`; rejects when the process ends before. */
function line<Line>(child: ChildProcess, matches: (value: Line) => boolean): Promise<Line> {
  return new Promise((resolveLine, reject) => {
    if (!child.stdout) return reject(new Error("no output"));
    createInterface({ input: child.stdout }).on("line", (text) => {
      if (!text.startsWith("{")) return;
      const value = JSON.parse(text) as Line;
      if (matches(value)) resolveLine(value);
    });
    child.once("exit", (code) => reject(new Error(`a process ended early (exit ${code})\n${errors.join("")}`)));
  });
}

async function play(): Promise<void> {
  const mesh = leafmesh(["run", join(root, "examples/demo/mesh.yaml"), "--port", "0", "--no-watch", "--json"]);
  const { url } = await line<{ event: string; url: string }>(mesh, ({ event }) => event === "ready");
  console.log(`mesh    ${url}  (the model in it is a script: no key needed)`);

  const request = {
    message: scene.message ?? "Is my battery OK?",
    device: { id: "phone-7", push_token: "..." },
  };
  const phone = leafmesh([
    "device",
    ...["--mesh-url", url, "--id", request.device.id, "--token", request.device.push_token],
    ...["--behave", scene.behave, "--json"],
  ]);
  await line<{ event: string }>(phone, ({ event }) => event === "ready");
  console.log(`phone   ${request.device.id}, process ${phone.pid}`);
  console.log(`request POST /api/mesh/request ${JSON.stringify(request)}\n`);

  const response = await fetch(`${url}/api/mesh/request`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...request, ...(scene.entryPoint ? { entry_point: scene.entryPoint } : {}) }),
  });
  const answer = (await response.json()) as { session_id: string; reply?: string; error?: { message: string } };
  if (!response.ok || answer.reply === undefined) throw new Error(answer.error?.message ?? `HTTP ${response.status}`);

  const { asks } = (await (await fetch(`${url}/api/sessions/${answer.session_id}/asks`)).json()) as {
    asks: readonly {
      timeline: readonly { ts: number; type: string; payload: unknown }[];
      result?: { outcome: string };
    }[];
  };
  const ask = asks[0];
  if (!ask) throw new Error("the agent asked no device");
  const { describeMoment } = await import("../packages/cli/src/timeline.ts");
  const start = ask.timeline[0]?.ts ?? 0;
  for (const moment of ask.timeline) {
    console.log(`  +${(moment.ts - start).toFixed(3)} s  ${moment.type.padEnd(13)}  ${describeMoment(moment)}`);
  }
  console.log(`\nreply   ${answer.reply}`);
  if (ask.result?.outcome !== expected) throw new Error(`expected ${expected}, got ${ask.result?.outcome}`);
}

let failed = false;
try {
  await play();
} catch (error) {
  failed = true;
  console.error(`demo: ${error instanceof Error ? error.message : String(error)}`);
} finally {
  const ended = children.map((child) =>
    child.exitCode !== null || child.signalCode !== null
      ? Promise.resolve()
      : new Promise<void>((done) => {
          child.once("exit", () => done());
          child.kill("SIGTERM");
          setTimeout(() => child.kill("SIGKILL"), 3000).unref();
        }),
  );
  await Promise.all(ended);
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
