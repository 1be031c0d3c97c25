import { afterEach, describe, expect, it } from "vitest";
import { createTerminal, type Terminal } from "../../testing/terminal.ts";
import { type RoomsServeOptions, roomsConformance, roomsServe } from "./rooms.ts";

const KEY = "a-key-for-the-rooms-command";
const running: { readonly terminal: Terminal; readonly ended: Promise<number> }[] = [];

afterEach(async () => {
  for (const { terminal, ended } of running.splice(0)) {
    terminal.stop();
    await ended;
  }
});

function serve(options: Partial<RoomsServeOptions> = {}, env: Record<string, string> = {}) {
  const terminal = createTerminal();
  const ended = roomsServe({ host: "127.0.0.1", port: 0, json: true, ...options }, { ...terminal.context, env });
  running.push({ terminal, ended: ended.catch(() => 1) });
  return { terminal, ended };
}

async function ready(options: Partial<RoomsServeOptions> = {}, env: Record<string, string> = {}) {
  const { terminal, ended } = serve(options, env);
  const event = await terminal.event("ready");
  return { terminal, ended, event, url: String(event.url) };
}

const open = (url: string, key: string) =>
  fetch(`${url}/v1/rooms`, { method: "POST", headers: { authorization: `Bearer ${key}` } });

describe("leafmesh rooms serve", () => {
  it("serves the keys of its options and of the environment, with the times that it was told", async () => {
    const { url } = await ready(
      { key: [KEY], idle: 3, grace: 4 },
      { LEAFMESH_ROOM_KEYS: "another-key-of-a-mesh, third-key-of-a-mesh" },
    );
    for (const key of [KEY, "another-key-of-a-mesh", "third-key-of-a-mesh"])
      expect((await open(url, key)).status).toBe(201);
    expect((await open(url, "somebody-elses-key")).status).toBe(401);
    expect(await (await open(url, KEY)).json()).toMatchObject({ limits: { idle_s: 3, grace_s: 4 } });
  });

  it("makes up a key on this machine when there is none", async () => {
    const { url, event } = await ready();
    expect((await open(url, String(event.key))).status).toBe(201);
    const { terminal } = serve({ json: false });
    await expect.poll(() => terminal.output()).toMatch(/API key +[A-Za-z0-9_-]{32} {2}\(made up for this run\)/);
    expect(terminal.output()).toMatch(/devices connect to +ws:\/\/127\.0\.0\.1:\d+\/v1\/connect/);
  });

  it("tells devices the public address", async () => {
    const { event } = await ready({ publicUrl: "https://rooms.example.com", key: [KEY] });
    expect(event).toEqual({
      event: "ready",
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      connect_url: "wss://rooms.example.com/v1/connect",
    });
  });

  it("ends in good order when it is told to", async () => {
    const { terminal, ended, url } = await ready({ key: [KEY] });
    await open(url, KEY);
    terminal.stop();
    expect(await ended).toBe(0);
    await terminal.event("stopped");
    await expect(open(url, KEY)).rejects.toThrow();
  });

  it.each([
    ["no key outside this machine", { host: "0.0.0.0" }, "needs an API key"],
    ["no address outside this machine", { host: "0.0.0.0", key: [KEY] }, "needs --public-url"],
    ["a public address without TLS", { publicUrl: "http://rooms.example.com", key: [KEY] }, "not an https:// address"],
    ["a short key", { key: ["short"] }, "at least 16 characters"],
    ["a key with a space", { key: ["a key with spaces in it"] }, "without spaces"],
  ])("refuses %s", async (_name, options, message) => {
    await expect(serve(options).ended).rejects.toMatchObject({
      name: "CommandFailure",
      exitCode: 2,
      message: expect.stringContaining(message),
    });
  });

  it("says that its port is taken", async () => {
    const { url } = await ready({ key: [KEY] });
    const port = Number(new URL(url).port);
    await expect(serve({ port, key: [KEY] }).ended).rejects.toMatchObject({
      exitCode: 1,
      message: `cannot listen on 127.0.0.1:${port} (EADDRINUSE)`,
      hint: expect.stringContaining("--port"),
    });
  });
});

describe("leafmesh rooms conformance", () => {
  const judge = async (options: Partial<Parameters<typeof roomsConformance>[0]>, env: Record<string, string> = {}) => {
    const terminal = createTerminal();
    const code = await roomsConformance({ url: "http://127.0.0.1:9", ...options }, { ...terminal.context, env });
    return { code, out: terminal.output() };
  };

  it("passes the service of `rooms serve`", async () => {
    const { url } = await ready({ key: [KEY] });
    const { code, out } = await judge({ url, only: ["C5", "T1", "T3"] }, { LEAFMESH_ROOM_KEYS: KEY });
    expect(code).toBe(0);
    expect(out).toMatch(/^pass {2}C5 {2}closing is idempotent.* \d\.\d s\npass {2}T1 {2}/);
    expect(out).toMatch(/\n3 passed, 0 failed, 0 skipped\n$/);
  });

  it("names what fails and why, and exits 1", async () => {
    const { url } = await ready({ key: [KEY] });
    const { code, out } = await judge({ url, key: "the-wrong-key-for-it", only: ["C2", "C5"] });
    expect(code).toBe(1);
    expect(out).toMatch(/^pass {2}C2 .*\nFAIL {2}C5 /);
    expect(out).toContain("C5  the status of POST /v1/rooms: expected 201, got 401");
  });

  it("prints its report as JSON", async () => {
    const { url } = await ready({ key: [KEY] });
    const { out } = await judge({ url, key: KEY, only: ["X1"], json: true });
    expect(JSON.parse(out)).toEqual({
      url,
      passed: 1,
      failed: 0,
      skipped: 0,
      results: [{ id: "X1", title: expect.any(String), status: "pass", durationMs: expect.any(Number) }],
    });
  });

  it.each([
    ["without a key", {}, "no API key"],
    ["for an address that is none", { key: KEY, url: "rooms" }, "is not an address"],
    ["for a test that is none", { key: KEY, only: ["Z9"] }, "no test is called Z9"],
  ])("does not start %s", async (_name, options, message) => {
    await expect(judge(options)).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining(message) });
  });
});
