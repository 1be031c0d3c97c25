import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type DirectMesh, newSigner, startDirectMesh } from "../../testing/direct-mesh.ts";
import { createTerminal, type Terminal } from "../../testing/terminal.ts";
import { BEHAVIOUR_HELP } from "../simulated-device/behaviour.ts";
import { type DeviceCommandOptions, device } from "./device.ts";

const TOKEN = "secret-of-phone-7";

let mesh: DirectMesh;
let folder: string;
const running: { terminal: Terminal; ended: Promise<number> }[] = [];

beforeEach(async () => {
  mesh = await startDirectMesh(TOKEN);
  folder = await mkdtemp(join(tmpdir(), "leafmesh-device-"));
});
afterEach(async () => {
  for (const { terminal, ended } of running.splice(0)) {
    terminal.stop();
    await ended;
  }
  await mesh.close();
  await rm(folder, { recursive: true });
});

function run(options: Partial<DeviceCommandOptions> = {}) {
  const terminal = createTerminal();
  const ended = device({ meshUrl: mesh.url, id: "phone-7", token: TOKEN, json: true, ...options }, terminal.context);
  running.push({ terminal, ended: ended.catch(() => 1) });
  return { terminal, ended };
}

/** A device that can be rung, and behaves like this. */
async function ready(behave: string, options: Partial<DeviceCommandOptions> = {}): Promise<Terminal> {
  const { terminal } = run({ behave, ...options });
  expect(await terminal.event("ready")).toEqual({ event: "ready", device: "phone-7", via: "direct" });
  return terminal;
}

describe("a simulated device that behaves", () => {
  it("answers what it is asked, and says each step", async () => {
    const terminal = await ready("done", { battery: 42 });
    const room = await mesh.ask();
    expect((await room.frame("peer")).capabilities?.map(({ name }) => name)).toEqual([
      "battery.read",
      "setting.write",
      "photo.take",
      "message.send",
    ]);
    room.task();
    expect(await room.frame("reply")).toMatchObject({ outcome: "done", data: { level: 42, charging: false } });
    for (const event of ["ring", "joined", "task", "accepted", "acted", "replied", "delivered", "settled"]) {
      await terminal.event(event);
    }
  });

  it("declares nothing when told so", async () => {
    await ready("done", { undeclared: true });
    const room = await mesh.ask();
    expect(await room.frame("peer")).not.toHaveProperty("capabilities");
  });

  it("keeps its settings and counts its messages", async () => {
    await ready("done");
    const act = async (ask: string, action: string, inputs: Record<string, string>) => {
      const room = await mesh.ask({ ask });
      room.task({ action, inputs });
      return room.frame("reply");
    };
    const write = { name: "ringtone_volume", value: "3" };
    expect(await act("a", "setting.write", write)).toMatchObject({ data: { ...write, previous: null } });
    expect(await act("b", "setting.write", { ...write, value: "9" })).toMatchObject({ data: { previous: "3" } });
    expect(await act("c", "setting.write", {})).toMatchObject({ outcome: "failed", error: { code: "bad_inputs" } });
    expect(await act("d", "message.send", { to: "Ann", body: "hi" })).toMatchObject({
      data: { sent: true, to: "Ann" },
    });
    expect(await act("e", "message.send", { to: "Ann" })).toMatchObject({ error: { code: "bad_inputs" } });
  });

  it("takes a photo and brings it to the mesh", async () => {
    await ready("done");
    const room = await mesh.ask();
    room.task({ action: "photo.take" });
    const reply = await room.frame("reply");
    const photo = mesh.uploads.get("/uploads/photo-1.png");
    expect(reply).toMatchObject({ data: { photo: { upload: "photo-1.png", media_type: "image/png" } } });
    expect(photo?.subarray(0, 8)).toEqual(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]));
    expect([photo?.readUInt32BE(16), photo?.readUInt32BE(20)]).toEqual([64, 64]);
    expect(photo?.subarray(-8, -4).toString()).toBe("IEND");
  });

  it("does not believe a ring that its mesh did not sign", async () => {
    const terminal = await ready("done");
    await mesh.ask({}, await newSigner());
    expect(await terminal.event("ignored")).toMatchObject({ reason: "bad_signature" });
  });

  it("believes the keys that it is given, and no others", async () => {
    const path = join(folder, "keys.json");
    const signer = await newSigner();
    await writeFile(path, JSON.stringify([signer.key]));
    const terminal = await ready("done", { meshKey: path });
    await mesh.ask();
    expect(await terminal.event("ignored")).toMatchObject({ reason: "bad_signature" });
    const room = await mesh.ask({ ask: "ask_2" }, signer);
    room.task();
    expect(await room.frame("reply")).toMatchObject({ outcome: "done" });
  });

  it("leaves its rooms and the mesh when it is stopped", async () => {
    const { terminal, ended } = run({ behave: "late=60000" });
    await terminal.event("ready");
    const room = await mesh.ask();
    room.task();
    await room.frame("accepted");
    terminal.stop();
    expect(await room.frame("reply")).toMatchObject({ id: "ask_1" });
    expect(await ended).toBe(0);
    while (mesh.connected() > 0) await new Promise((resolve) => setImmediate(resolve));
  });
});

describe("a simulated device that misbehaves", () => {
  it.each([
    ["fail", { outcome: "failed", error: { code: "simulated_failure", may_have_happened: false } }, true],
    ["decline", { outcome: "declined" }, false],
    ["approve-later", { outcome: "sent_for_approval" }, false],
    ["oversize", { outcome: "failed", error: { code: "reply_too_large", may_have_happened: true } }, true],
    ["late=20", { outcome: "done" }, true],
    ["join-late=20", { outcome: "done" }, true],
  ])("%s", async (behave, answer, acts) => {
    const terminal = await ready(behave);
    const room = await mesh.ask();
    room.task();
    expect(await room.frame("accepted")).toMatchObject({ id: "ask_1" });
    expect(await room.frame("reply")).toMatchObject(answer);
    await terminal.event("settled");
    expect(terminal.output().includes('"event":"acted"')).toBe(acts);
  });

  it("ignore: takes the task and says nothing", async () => {
    const terminal = await ready("ignore");
    const room = await mesh.ask();
    await room.frame("peer");
    room.task();
    await terminal.event("joined");
    room.close();
    expect(await terminal.event("settled")).toMatchObject({ disposition: { status: "no_task", reason: "closed" } });
    expect(room.rest().map(({ type }) => type)).not.toContain("accepted");
  });

  it("no-join: hears the ring and stays where it is", async () => {
    const terminal = await ready("no-join");
    const room = await mesh.ask();
    expect(await terminal.event("ring")).toMatchObject({ ask: "ask_1", approval: "ask", source: "direct" });
    expect(room.rest()).toEqual([]);
  });

  it("not-allowed: the mesh hears that the person said no", async () => {
    const terminal = await ready("not-allowed");
    const room = await mesh.ask();
    expect(await room.frame("peer")).toMatchObject({ state: "refused", reason: "not_allowed" });
    expect(await terminal.event("refused")).toMatchObject({ told: true });
  });

  it("twice: sends its answer twice", async () => {
    const terminal = await ready("twice");
    const room = await mesh.ask();
    room.task();
    await room.frame("reply");
    expect(await terminal.event("settled")).toMatchObject({ disposition: { delivered: true } });
  });

  it("drop: is gone for good after it accepted", async () => {
    const terminal = await ready("drop");
    const room = await mesh.ask();
    room.task();
    await room.frame("accepted");
    expect(await room.frame("peer")).toMatchObject({ state: "away" });
    await terminal.event("acted");
    expect(room.rest().map(({ type }) => type)).not.toContain("reply");
  });

  it("drop=<ms>: comes back with its answer", async () => {
    await ready("drop=50");
    const room = await mesh.ask();
    room.task();
    await room.frame("accepted");
    expect(await room.frame("peer")).toMatchObject({ state: "away" });
    expect(await room.frame("peer")).toMatchObject({ state: "back" });
    expect(await room.frame("reply")).toMatchObject({ outcome: "done" });
  });

  it.each([
    ["crash-after-accepted", false],
    ["crash-after-acted", true],
  ])("%s: is killed, and does not know when it is back", { timeout: 30_000 }, async (behave, acts) => {
    const ledger = join(folder, "ledger.jsonl");
    const child = spawn(
      process.execPath,
      [
        ...["--conditions=leafmesh-source", join(import.meta.dirname, "../main.ts"), "device", "--json"],
        ...["--mesh-url", mesh.url, "--token", TOKEN, "--behave", behave, "--ledger", ledger],
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const lines: string[] = [];
    child.stdout.on("data", (chunk: Buffer) => lines.push(chunk.toString()));
    const exit = once(child, "exit");
    await once(child.stdout, "data");
    const first = await mesh.ask();
    first.task();
    await first.frame("accepted");
    expect(await exit).toEqual([null, "SIGKILL"]);
    expect(lines.join("").includes('"event":"acted"')).toBe(acts);
    first.close();

    const terminal = await ready("done", { ledger });
    const second = await mesh.ask();
    second.task();
    expect(await second.frame("reply")).toMatchObject({
      outcome: "failed",
      error: { code: "outcome_unknown", may_have_happened: true },
    });
    await terminal.event("settled");
    expect(terminal.output()).not.toContain('"event":"acted"');
    expect(await readFile(ledger, "utf8")).toContain('"delivered":true');
  });
});

describe("a command line that is wrong", () => {
  it.each<[string, Partial<DeviceCommandOptions>, string]>([
    ["an id that is none", { id: "phone 7" }, "--id phone 7: must be 1 to 128"],
    ["a way to behave that there is not", { behave: "badly" }, "--behave badly is not one of these"],
    ["a time that is none", { behave: "late=soon" }, "--behave late=soon"],
    ["no time where one is needed", { behave: "late" }, "--behave late is"],
    ["a time where none is taken", { behave: "done=5" }, "--behave done=5"],
    ["a broker without a topic", { mqtt: "mqtt://127.0.0.1:1" }, "--mqtt and --topic go together"],
    ["a broker that is none", { mqtt: "http://127.0.0.1:1", topic: "a/b" }, "--mqtt cannot be used"],
    ["a topic that is a pattern", { mqtt: "mqtt://127.0.0.1:1", topic: "a/#" }, "--mqtt cannot be used"],
    ["keys that are not there", { meshKey: "/nowhere/keys.json" }, "cannot be read"],
    ["a token that cannot be written down", { token: "a\nb" }, "The device cannot connect: connectDirect: token"],
    ["a mesh that is read along the way", { meshUrl: "http://mesh.example.com" }, "url must start with wss://"],
    ["a ledger in no folder", { ledger: "/dev/null/ledger" }, "--ledger /dev/null/ledger cannot be used"],
  ])("has %s", async (_what, options, message) => {
    await expect(run(options).ended).rejects.toMatchObject({
      name: "CommandFailure",
      exitCode: 2,
      message: expect.stringContaining(message),
    });
  });

  it("has a file without keys", async () => {
    const path = join(folder, "keys.json");
    await writeFile(path, "{}");
    await expect(run({ meshKey: path }).ended).rejects.toThrow("holds no keys");
  });
});

describe("leafmesh device --help", () => {
  it("names every way to behave", { timeout: 30_000 }, () => {
    const main = join(import.meta.dirname, "../main.ts");
    const help = spawnSync(process.execPath, ["--conditions=leafmesh-source", main, "device", "--help"], {
      encoding: "utf8",
    }).stdout;
    const names = BEHAVIOUR_HELP.split("\n").map((line) => /[a-z-]+/.exec(line)?.[0] ?? "");
    expect(names.length).toBeGreaterThan(10);
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(help))).toEqual([]);
  });
});

describe("the end", () => {
  it("comes when another device takes its place", async () => {
    const first = run();
    await first.terminal.event("ready");
    await ready("done");
    await expect(first.ended).rejects.toThrow("The mesh will not ring this device any more (replaced");
  });

  it("comes when it is stopped before there is a mesh", async () => {
    const { terminal, ended } = run({ meshUrl: "http://127.0.0.1:9" });
    expect(await terminal.event("unready")).toHaveProperty("detail");
    terminal.stop();
    expect(await ended).toBe(0);
  });
});

describe("without --json", () => {
  it("prints a line a step, for people", async () => {
    const { terminal } = run({ json: undefined });
    while (!terminal.output().includes("can be rung")) await once(terminal.context.stdout, "data");
    const room = await mesh.ask({ mesh: "sup\u001b[2Jport" });
    room.task();
    await room.frame("reply");
    while (!terminal.output().includes("settled")) await once(terminal.context.stdout, "data");
    const lines = terminal.output().split("\n");
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d\.\d{3} {2}ready {6}device "phone-7" can be rung \(direct\)$/);
    expect(lines[1]).toContain("ask_1 from sup\\u001b[2Jport (approval: ask)");
    expect(terminal.output()).toContain("ask_1 battery.read within 30000 ms");
    expect(terminal.output()).toContain("ask_1 done");
    expect(terminal.output()).not.toContain(TOKEN);
  });
});
