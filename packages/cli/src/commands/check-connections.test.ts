import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { Secret } from "@leafmesh/protocol";
import { serveRooms } from "@leafmesh/room-service";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CliContext, EXIT } from "../context.ts";
import { providerRegistry } from "../registry.ts";
import { validate } from "./validate.ts";

const KEY = "the-key-of-the-room-service";
const WRONG_KEY = "a-key-that-nobody-knows";

describe("leafmesh validate --check", () => {
  let folder: string;
  let url: string;
  let stop: () => Promise<void>;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "leafmesh-check-"));
    const server = await serveRooms({ host: "127.0.0.1", port: 0, apiKeys: [new Secret(KEY)] });
    url = server.url;
    stop = () => server.close();
  });
  afterAll(async () => {
    await stop();
    rmSync(folder, { recursive: true });
  });

  const run = async (connections: string, more: { check?: boolean; json?: boolean } = { check: true }) => {
    const agents = "agents: { helper: { model: gpt-4o-mini, prompt: Help. } }";
    writeFileSync(join(folder, "mesh.yaml"), `name: m\n${agents}\nconnections:\n${connections}`);
    let stdout = "";
    const stream = new Writable({
      write(chunk, _encoding, done) {
        stdout += chunk;
        done();
      },
    });
    const context: CliContext = {
      ...{ stdout: stream, stderr: stream, env: { OPENAI_API_KEY: "sk-of-the-test" }, cwd: folder },
      ...{ isTerminal: false, colors: false, signal: new AbortController().signal },
    };
    const code = await validate({ file: "mesh.yaml", ...more }, context, await providerRegistry());
    return { code, stdout };
  };

  it("says of each connection whether it works", async () => {
    const { code, stdout } = await run(`  phones: { provider: direct }
  rooms: { provider: room, url: "${url}", api_key: ${KEY} }
`);
    expect(code).toBe(EXIT.ok);
    expect(stdout).toContain("phones (notifier) active\nrooms (room) active\n");
  });

  it("says why one does not, without its key, and ends with 1", async () => {
    const { code, stdout } = await run(`  refused: { provider: room, url: "${url}", api_key: ${WRONG_KEY} }
  silent: { provider: room, url: "http://127.0.0.1:9", api_key: ${WRONG_KEY} }
`);
    expect(code).toBe(EXIT.failed);
    expect(stdout).toMatch(/^refused \(room\) failing: \S.+$/m);
    expect(stdout).toMatch(/^silent \(room\) readable: \S.+$/m);
    expect(stdout).not.toContain(WRONG_KEY);
  });

  it("gives a script the same, and asks nobody unless it is told to", async () => {
    const connections = `  rooms: { provider: room, url: "${url}", api_key: ${WRONG_KEY} }\n`;
    const checked = await run(connections, { check: true, json: true });
    expect(checked.code).toBe(EXIT.failed);
    expect(JSON.parse(checked.stdout)).toMatchObject({
      ok: true,
      connections: [{ connection: "rooms", face: "room", status: "failing", reason: expect.any(String) }],
    });
    const unchecked = await run(connections, { json: true });
    expect(unchecked.code).toBe(EXIT.ok);
    expect(JSON.parse(unchecked.stdout)).not.toHaveProperty("connections");
  });

  it("does not ask for a file that is not valid", async () => {
    const { code, stdout } = await run("  rooms: { provider: room }\n");
    expect(code).toBe(EXIT.invalid);
    expect(stdout).not.toMatch(/\((room|notifier)\)/);
  });
});
