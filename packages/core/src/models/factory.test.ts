import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Secret, systemClock } from "@leafmesh/protocol";
import { type OpenAIServer, startOpenAIServer } from "@leafmesh/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { ModelEndpoint } from "../config/mesh.ts";
import type { Models } from "./contract.ts";
import { createModels } from "./factory.ts";
import { ask, chatRequest, createLogKeeper } from "./test-support.ts";

const folder = mkdtempSync(join(tmpdir(), "leafmesh-models-"));
let server: OpenAIServer;
beforeAll(async () => {
  server = await startOpenAIServer({ script: [{ content: "Hello." }] });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const open: Models[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

function setUp(endpoints: readonly ModelEndpoint[], env: Record<string, string> = {}) {
  const logger = createLogKeeper();
  const mesh = { models: new Map(endpoints.map((endpoint) => [endpoint.name, endpoint])) };
  const models = createModels({ mesh, env, clock: systemClock, logger });
  open.push(models);
  return { models, logger };
}

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const lastKey = (): unknown => server.requests.at(-1)?.headers.authorization;

describe("an OpenAI endpoint", () => {
  it("is what the mesh says", async () => {
    const endpoint = { name: "local", kind: "openai", baseUrl: server.baseUrl, apiKey: new Secret("abc") } as const;
    const { models } = setUp([endpoint], { OPENAI_API_KEY: "not-this", OPENAI_BASE_URL: "http://127.0.0.1:9" });
    const model = await models.model("local");
    expect(await ask(model)).toMatchObject({ content: "Hello." });
    expect(lastKey()).toBe("Bearer abc");
    expect(await models.model("local")).toBe(model);
  });

  it("with an address of its own never gets the key of OpenAI", async () => {
    const { models } = setUp([{ name: "local", kind: "openai", baseUrl: server.baseUrl }], {
      OPENAI_API_KEY: "secret",
    });
    await ask(await models.model("local"));
    expect(lastKey()).toBeUndefined();
  });

  it.each<[string, readonly ModelEndpoint[]]>([
    ["is built in", []],
    ["is filled in", [{ name: "openai", kind: "openai" }]],
  ])("named openai %s from the environment", async (_how, endpoints) => {
    const { models } = setUp(endpoints, { OPENAI_API_KEY: "from-env", OPENAI_BASE_URL: server.baseUrl });
    await ask(await models.model("openai"));
    expect(lastKey()).toBe("Bearer from-env");
  });

  it("without a key is refused, unless its address is another than OpenAI's", async () => {
    const missing = setUp([{ name: "openai", kind: "openai" }]);
    await expect(missing.models.model("openai")).rejects.toMatchObject({
      kind: "bad_credential",
      message: "models.openai has no API key. Set OPENAI_API_KEY, or api_key under models.openai.",
    });
    const { models } = setUp([{ name: "openai", kind: "openai" }], { OPENAI_BASE_URL: server.baseUrl });
    await ask(await models.model("openai"));
    expect(lastKey()).toBeUndefined();
  });

  it.each([
    [{}, "models.local.api_key"],
    [{ OPENAI_API_KEY: "wrong-key" }, "OPENAI_API_KEY"],
  ])("says where its key comes from when that is refused: %j", async (env, place) => {
    const strict = await startOpenAIServer({ apiKey: "right" });
    try {
      const endpoint = {
        name: "local",
        kind: "openai",
        baseUrl: strict.baseUrl,
        apiKey: new Secret("wrong-key"),
      } as const;
      const { models } = setUp([endpoint], env);
      await expect(ask(await models.model("local"))).rejects.toMatchObject({
        kind: "bad_credential",
        message: expect.stringMatching(new RegExp(`Check ${place}\\.$`)),
      });
    } finally {
      await strict.close();
    }
  });

  it("records what it answers, for a scripted endpoint to play", async () => {
    const record = join(folder, "recorded", "talk.jsonl");
    const recording = setUp([
      { name: "local", kind: "openai", baseUrl: server.baseUrl, apiKey: new Secret("abc-secret"), record },
    ]);
    await ask(await recording.models.model("local"));
    await recording.models.close();
    expect(readFileSync(record, "utf8")).not.toContain("abc-secret");
    const { models } = setUp([{ name: "tape", kind: "scripted", script: record }]);
    const player = await models.model("tape");
    expect(await ask(player)).toMatchObject({ content: "Hello." });
    await expect(ask(player, chatRequest({ model: "other" }))).rejects.toMatchObject({ kind: "unscripted" });
  });
});

describe("a scripted endpoint", () => {
  it("plays a script, and says what of it was not used", async () => {
    const script = write("two.yaml", "- reply: One.\n- reply: Two.\n");
    const { models, logger } = setUp([{ name: "script", kind: "scripted", script }]);
    expect(await ask(await models.model("script"))).toMatchObject({ content: "One." });
    await models.close();
    expect(logger.lines).toMatchObject([{ fields: { script: "two.yaml", entries: ["two.yaml:2 (step 2)"] } }]);
  });

  it("is tried again after its file was mended", async () => {
    const script = write("mended.yaml", "- replay: One.\n");
    const { models } = setUp([{ name: "script", kind: "scripted", script }]);
    await expect(models.model("script")).rejects.toMatchObject({
      kind: "unscripted",
      message: expect.stringContaining(`${script}:1:3 [0].replay: unknown key; did you mean "reply"?`),
    });
    write("mended.yaml", "- reply: One.\n");
    expect(await ask(await models.model("script"))).toMatchObject({ content: "One." });
  });

  it.each([
    [join(folder, "none.yaml"), "cannot be read (missing)"],
    [folder, "cannot be read (not a file)"],
    [undefined, "names no script"],
  ])("says why its file cannot be used: %s", async (script, says) => {
    const { models } = setUp([{ name: "script", kind: "scripted", script }]);
    await expect(models.model("script")).rejects.toMatchObject({
      kind: "unscripted",
      message: expect.stringContaining(says),
    });
  });
});

describe("the models of a mesh", () => {
  it("do not hold an endpoint that nobody wrote", async () => {
    const { models } = setUp([{ name: "local", kind: "openai", baseUrl: server.baseUrl }]);
    await expect(models.model("locl")).rejects.toMatchObject({
      kind: "bad_request",
      message: 'There is no endpoint "locl" under models: (there are: local).',
    });
  });

  it("are closed together, once and for all", async () => {
    const { models } = setUp([{ name: "local", kind: "openai", baseUrl: server.baseUrl }]);
    const model = await models.model("local");
    await ask(model);
    await models.close();
    await models.close();
    await expect(ask(model)).rejects.toMatchObject({ kind: "aborted" });
    await expect(models.model("local")).rejects.toMatchObject({ kind: "aborted" });
  });
});
