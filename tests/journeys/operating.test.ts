/** What an operator does and sees: start, reload, stop, look, and what each mistake looks like. */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDevice } from "../support/device.ts";
import { newFolder, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess, root, startLeafmesh } from "../support/process.ts";

const READ = callFor({ action: "battery.read", inputs: {} });
const DEVICE = { id: "phone-7", push_token: "token-of-phone-7" };

let model: ObedientModel;
const processes: RunningProcess[] = [];

beforeAll(async () => {
  model = await startObedientModel();
});

afterEach(async () => {
  await Promise.all(processes.splice(0).map((process) => process.stop()));
});

afterAll(async () => {
  await killAll();
  await model.close();
});

function keep<Process extends RunningProcess>(process: Process): Process {
  processes.push(process);
  return process;
}

function yaml(more = "", deny = ""): string {
  return `name: operating
${model.yaml}connections:
  phones: { provider: direct }
agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { connection: phones${deny} }
${more}`;
}

async function leafmesh(
  args: readonly string[],
  env?: Record<string, string>,
): Promise<{ code: unknown; text: string }> {
  const child = startLeafmesh(args, env);
  const code = await child.exited;
  return { code, text: child.output() };
}

describe("leafmesh run", () => {
  it("swaps in a good file, keeps the old mesh under a bad one, and says why", async () => {
    const mesh = keep(await startMesh({ yaml: yaml() }));
    keep(await startDevice(mesh.url));
    const file = join(mesh.folder, "mesh.yaml");
    const outcome = async () => resultsIn((await mesh.request({ message: READ, device: DEVICE })).reply)[0];
    expect(await outcome()).toMatchObject({ outcome: "done" });

    writeFileSync(file, yaml("", ', deny: ["battery.*"]'));
    await mesh.waitFor("reloaded");
    expect(await outcome()).toMatchObject({ outcome: "refused", reason: "action_denied" });

    writeFileSync(file, yaml("", ", aproval: silent"));
    await mesh.waitFor("reload_refused");
    expect(mesh.output()).toMatch(
      /mesh\.yaml:\d+:\d+ agents\.helper\.device\.aproval: unknown key; did you mean "approval"\?/,
    );
    expect(await outcome()).toMatchObject({ outcome: "refused", reason: "action_denied" });

    writeFileSync(file, yaml());
    await mesh.waitFor(
      (line) => line.event === "reloaded" && mesh.lines.filter(({ event }) => event === "reloaded").length === 2,
    );
    expect(await outcome()).toMatchObject({ outcome: "done" });
  });

  it("lets an ask that is under way end on the mesh that it started with", async () => {
    const mesh = keep(await startMesh({ yaml: yaml() }));
    const device = keep(await startDevice(mesh.url, { behave: "late=1500" }));
    const pending = mesh.request({ message: READ, device: DEVICE });
    await device.waitFor("accepted");
    writeFileSync(join(mesh.folder, "mesh.yaml"), yaml("", ', deny: ["*"]'));
    await mesh.waitFor("reloaded");
    expect(resultsIn((await pending).reply)[0]).toMatchObject({ outcome: "done" });
  });

  it("sees a change that comes at once after the start, before it watches", async () => {
    const mesh = keep(await startMesh({ yaml: yaml() }));
    writeFileSync(join(mesh.folder, "mesh.yaml"), yaml("", ', deny: ["battery.*"]'));
    await mesh.waitFor("reloaded");
    expect(mesh.lines.filter(({ event }) => event === "reloaded")).toHaveLength(1);
  });

  it("keeps its data to itself", async () => {
    const mesh = keep(await startMesh({ yaml: yaml() }));
    const data = join(mesh.folder, ".leafmesh");
    expect((statSync(data).mode & 0o777).toString(8)).toBe("700");
    for (const file of readdirSync(data)) {
      expect([file, (statSync(join(data, file)).mode & 0o777).toString(8)]).toEqual([file, "600"]);
    }
  });

  it("refuses a second process on the same data, and lets it in once the first was killed", async () => {
    const first = keep(await startMesh({ yaml: yaml() }));
    const second = await leafmesh(["run", join(first.folder, "mesh.yaml"), "--port", "0"]);
    expect(second.code).toBe(1);
    expect(second.text).toMatch(/^leafmesh: another LeafMesh process uses .*mesh\.db; stop it/);
    expect(second.text).not.toMatch(/\n\s+at /);
    first.kill("SIGKILL");
    await first.exited;
    keep(await startMesh({ yaml: yaml(), folder: first.folder }));
  });

  const mistakes: readonly [string, () => Promise<{ args: string[]; env?: Record<string, string> }>, number, RegExp][] =
    [
      [
        "a port that is taken",
        async () => ({ args: ["run", file(yaml()), "--port", String(await takenPort())] }),
        1,
        /Port \d+ on 127\.0\.0\.1 is taken.*--port/,
      ],
      [
        "a foreign address without keys",
        async () => ({ args: ["run", file(yaml()), "--host", "0.0.0.0", "--port", "0"] }),
        1,
        /server\.api_keys is empty/,
      ],
      [
        "a secret key that is none",
        async () => ({ args: ["run", file(yaml()), "--port", "0"], env: { LEAFMESH_SECRET_KEY: "short" } }),
        1,
        /LEAFMESH_SECRET_KEY is not 32 bytes.*openssl rand -base64 32/,
      ],
      [
        "no file",
        async () => ({ args: ["run", "/nowhere/mesh.yaml"] }),
        3,
        /\/nowhere\/mesh\.yaml.*there is no such file.*leafmesh new/,
      ],
      [
        "a file that is not valid",
        async () => ({ args: ["run", file("agents: {}\n")] }),
        3,
        /mesh\.yaml:1:1 agents: must hold at least one agent/,
      ],
      ["a port that is no number", async () => ({ args: ["run", "--port", "http"] }), 2, /--port.*whole number/],
      [
        "a command that does not exist",
        async () => ({ args: ["runn"] }),
        2,
        /unknown command 'runn'.*\(Did you mean run\?\)/s,
      ],
      [
        "a mesh that is not there",
        async () => ({ args: ["asks", "--url", "http://127.0.0.1:9"] }),
        1,
        /There is no mesh at http:\/\/127\.0\.0\.1:9\.\n\s+Start one with `leafmesh run`/,
      ],
    ];

  it.each(mistakes)("%s: one sentence and its cure", async (_, prepare, code, message) => {
    const { args, env } = await prepare();
    const ended = await leafmesh(args, env);
    expect(ended.text).toMatch(message);
    expect(ended.code).toBe(code);
    expect(ended.text).not.toMatch(/\n\s+at .*\.ts/);
  });
});

describe("looking at a running mesh", () => {
  it("shows asks, keys and a chat in the terminal", async () => {
    const mesh = keep(await startMesh({ yaml: yaml(), key: "key-1", env: {} }));
    const url = ["--url", mesh.url];
    expect((await leafmesh(["asks", ...url])).text).toBe("No asks yet.\n");
    const chat = await leafmesh(["chat", ...url, "--device", "phone-7", "--message", READ]);
    expect(chat.code).toBe(0);
    expect(chat.text).toMatch(/◆ created\s+battery\.read on phone-7 \(approval: ask\)/);
    expect(chat.text).toMatch(/◆ settled\s+done/);
    expect(chat.text).toMatch(/RESULT \[\{"outcome":"done"/);

    const list = await leafmesh(["asks", "list", "--json", ...url]);
    const [ask] = JSON.parse(list.text) as { ask_id: string }[];
    const shown = await leafmesh(["asks", "show", ask?.ask_id ?? "", ...url]);
    for (const step of ["ask.created", "ask.ringing", "ask.joined", "ask.sent", "ask.accepted", "ask.settled"]) {
      expect(shown.text).toContain(step);
    }
    expect((await leafmesh(["asks", "show", "ask_none", ...url])).text).toMatch(/There is no such ask\./);
    expect((await leafmesh(["asks", "cancel", ask?.ask_id ?? "", ...url])).text).toMatch(/has its outcome already/);
    expect((await leafmesh(["keys", "show", ...url])).text).toMatch(/Ed25519/);
  });

  it("asks for the API key when the mesh has one", async () => {
    const mesh = keep(await startMesh({ yaml: yaml('server: { api_keys: ["key-1"] }\n'), key: "key-1" }));
    const without = await leafmesh(["asks", "--url", mesh.url]);
    expect([without.code, without.text]).toEqual([1, expect.stringMatching(/wants an API key.*\n.*LEAFMESH_API_KEY/)]);
    const wrong = await leafmesh(["asks", "--url", mesh.url, "--key", "key-2"]);
    expect(wrong.text).toMatch(/does not know this API key/);
    expect((await leafmesh(["asks", "--url", mesh.url], { LEAFMESH_API_KEY: "key-1" })).code).toBe(0);
  });
});

describe("the files of a mesh", () => {
  it("are written, checked, drawn and described by the command line", async () => {
    const folder = join(newFolder(), "my-mesh");
    expect((await leafmesh(["new", folder])).code).toBe(0);
    const text = readFileSync(join(folder, "mesh.yaml"), "utf8");
    expect(text).toMatch(/^# yaml-language-server: \$schema=\.\/mesh\.schema\.json/);
    expect(await leafmesh(["validate", join(folder, "mesh.yaml")])).toMatchObject({ code: 0 });
    const again = await leafmesh(["new", folder]);
    expect([again.code === 0, again.text]).toEqual([false, expect.stringMatching(/--force/)]);
    expect((await leafmesh(["graph", join(folder, "mesh.yaml")])).text).toMatch(/^flowchart /);
    expect(JSON.parse((await leafmesh(["schema"])).text)).toMatchObject({ type: "object" });
    const providers = JSON.parse((await leafmesh(["providers", "--json"])).text);
    expect(providers.notifiers.map(({ provider }: { provider: string }) => provider)).toEqual(
      expect.arrayContaining(["direct", "mqtt"]),
    );
    expect(providers.rooms.map(({ provider }: { provider: string }) => provider)).toEqual(
      expect.arrayContaining(["leafmesh", "room", "mqtt", "ably", "pubnub", "pusher", "livekit"]),
    );
  });

  it("of the demo are valid", async () => {
    const demo = await leafmesh(["validate", join(root, "examples/demo/mesh.yaml")], { DEMO_FOLDER: "/tmp" });
    expect(demo.code).toBe(0);
  });
});

function file(text: string): string {
  const path = join(newFolder(), "mesh.yaml");
  writeFileSync(path, text);
  return path;
}

const taken: ReturnType<typeof createServer>[] = [];

afterAll(() => {
  for (const server of taken) server.close();
});

function takenPort(): Promise<number> {
  const server = createServer();
  taken.push(server);
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address ? address.port : 0);
    });
  });
}
