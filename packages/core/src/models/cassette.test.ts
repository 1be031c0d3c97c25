import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createPlayer, createRecorder } from "./cassette.ts";
import type { ChatMessage, Model, ModelAnswer, ModelRequest } from "./contract.ts";
import { ModelError } from "./contract.ts";
import { createScriptedModel } from "./scripted.ts";
import { ask, batteryTool, chatRequest, createLogKeeper } from "./test-support.ts";

const folder = mkdtempSync(join(tmpdir(), "leafmesh-cassette-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newPath = (): string => join(folder, "new", `${++files}.jsonl`);

/** Records these requests against a model that numbers its answers. */
async function record(requests: readonly ModelRequest[], path = newPath()): Promise<string> {
  let count = 0;
  const model = createScriptedModel(() => ({ content: `answer ${++count}`, toolCalls: [], finishReason: "stop" }));
  const recorder = createRecorder(model, { path, logger: createLogKeeper() });
  for (const request of requests) await ask(recorder, request);
  await recorder.close();
  return readFileSync(path, "utf8");
}

const saying = (...contents: readonly string[]): ModelRequest =>
  chatRequest({ messages: contents.map((content) => ({ role: "user", content })) });

const messageOf = (answering: Promise<ModelAnswer>): Promise<string> =>
  answering.then(
    () => "it answered",
    (error: unknown) => (error instanceof ModelError && error.kind === "unscripted" ? error.message : `${error}`),
  );

describe("a recording", () => {
  it("is a line of JSON for each call, and its owner's alone", async () => {
    const path = newPath();
    const text = await record([saying("one"), saying("two")], path);
    expect(text.split("\n").map((line) => (line === "" ? undefined : JSON.parse(line)))).toEqual([
      {
        cassette: 1,
        digest: expect.stringMatching(/^[0-9a-f]{64}$/),
        request: {
          model: "gpt-4o-mini",
          messages: [{ role: "user", content: "one" }],
          tools: [],
          toolChoice: "auto",
          parallelToolCalls: true,
        },
        answer: { content: "answer 1", toolCalls: [], finishReason: "stop" },
      },
      expect.objectContaining({ answer: expect.objectContaining({ content: "answer 2" }) }),
      undefined,
    ]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it("is added to, never overwritten", async () => {
    const path = newPath();
    const first = await record([saying("one")], path);
    const both = await record([saying("two")], path);
    expect(both.startsWith(first)).toBe(true);
    expect(both.split("\n")).toHaveLength(3);
  });

  it("keeps calls at the same time on lines of their own", async () => {
    const path = newPath();
    const model = createScriptedModel(() => ({ content: "x".repeat(100_000), toolCalls: [], finishReason: "stop" }));
    const recorder = createRecorder(model, { path, logger: createLogKeeper() });
    await Promise.all(Array.from({ length: 20 }, (_, each) => ask(recorder, saying(`${each}`))));
    await recorder.close();
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(lines).toHaveLength(20);
    for (const line of lines) expect(JSON.parse(line)).toHaveProperty("cassette", 1);
  });

  it("holds the hash of an image, not the image", async () => {
    const base64 = Buffer.from("a photo of a kitchen").toString("base64");
    const image: ChatMessage = {
      role: "user",
      content: [
        { type: "text", text: "look" },
        { type: "image", mediaType: "image/png", base64 },
      ],
    };
    const text = await record([chatRequest({ messages: [image] })]);
    expect(text).not.toContain(base64);
    expect(JSON.parse(text).request.messages[0].content[1]).toEqual({
      type: "image",
      mediaType: "image/png",
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  it("hands text on as it comes, and records no failure", async () => {
    const path = newPath();
    let calls = 0;
    const model: Model = {
      async answer(_request, { onText }) {
        onText?.("hel");
        if (++calls === 1) throw new ModelError("transient", "cut");
        onText?.("lo");
        return { content: "hello", toolCalls: [], finishReason: "stop" };
      },
      async close() {},
    };
    const recorder = createRecorder(model, { path, logger: createLogKeeper() });
    const told: string[] = [];
    await expect(ask(recorder, saying("hi"), (text) => told.push(text))).rejects.toThrow("cut");
    await ask(recorder, saying("hi"), (text) => told.push(text));
    await recorder.close();
    expect(told).toEqual(["hel", "hel", "lo"]);
    expect(readFileSync(path, "utf8").trimEnd().split("\n")).toHaveLength(1);
  });

  it("does not stand in the answer's way when it cannot be written", async () => {
    const logger = createLogKeeper();
    const model = createScriptedModel([{ reply: "hello" }]);
    const recorder = createRecorder(model, { path: join("/dev/null", "x.jsonl"), logger });
    expect(await ask(recorder, saying("hi"))).toMatchObject({ content: "hello" });
    await recorder.close();
    expect(logger.lines).toMatchObject([{ level: "error", message: "A model call could not be recorded" }]);
  });
});

describe("a replay", () => {
  it("gives the same answer to the same request, however its keys are ordered", async () => {
    const answer: ModelAnswer = {
      content: "Let me look.",
      toolCalls: [{ id: "call_x", name: "read_battery", arguments: '{"device":"phone"}' }],
      finishReason: "tool_calls",
      usage: { inputTokens: 5, outputTokens: 6 },
    };
    const path = newPath();
    const recorder = createRecorder(
      createScriptedModel(() => answer),
      { path, logger: createLogKeeper() },
    );
    await ask(recorder, chatRequest({ tools: [batteryTool], temperature: 0.1 }));
    await recorder.close();
    const player = createPlayer(readFileSync(path, "utf8"), "demo.jsonl");
    const reordered = {
      parameters: { properties: { device: { type: "string" } }, type: "object" },
      description: batteryTool.description,
      name: batteryTool.name,
    };
    const told: string[] = [];
    const replayed = await ask(player, chatRequest({ temperature: 0.1, tools: [reordered] }), (text) =>
      told.push(text),
    );
    expect(replayed).toEqual(answer);
    expect(told).toEqual(["Let me look."]);
  });

  it("gives the answers to a repeated request in their order, and then the last", async () => {
    const player = createPlayer(await record([saying("a"), saying("b"), saying("a")]), "demo.jsonl");
    const contents: (string | null)[] = [];
    for (const text of ["a", "a", "b", "a", "b"]) contents.push((await ask(player, saying(text))).content);
    expect(contents).toEqual(["answer 1", "answer 3", "answer 2", "answer 3", "answer 2"]);
  });

  it("does not mind that ids are made anew", async () => {
    const withIds = (ask: string, upload: string) =>
      saying(`{"ask":"ask_${ask.repeat(28)}","upload":"upl_${upload.repeat(22)}","again":"ask_${ask.repeat(28)}"}`);
    const text = await record([withIds("a", "b")]);
    expect(text).toContain('\\"ask\\":\\"ask_1\\",\\"upload\\":\\"upl_2\\",\\"again\\":\\"ask_1\\"');
    const player = createPlayer(text, "demo.jsonl");
    expect(await ask(player, withIds("c", "d"))).toMatchObject({ content: "answer 1" });
    expect(await messageOf(ask(player, saying(`{"ask":"ask_${"e".repeat(22)}"}`)))).toContain("holds no answer");
  });

  it("shows how a call that was not recorded differs from the nearest that was", async () => {
    const player = createPlayer(await record([saying("a"), saying("b", "c"), saying("b", "d", "e")]), "demo.jsonl");
    const start = "demo.jsonl holds no answer to this call. The nearest recorded one";
    expect(await messageOf(ask(player, saying("b", "d", "f")))).toBe(
      `${start} (line 3) differs at messages[2].content: recorded "e", came "f".`,
    );
    expect(await messageOf(ask(player, saying("b")))).toBe(
      `${start} (line 2) differs at messages[1]: recorded {"role":"user","content":"c"}, came nothing.`,
    );
    expect(await messageOf(ask(player, { ...saying("a"), model: "other" }))).toBe(
      `${start} (line 1) differs at model: recorded "gpt-4o-mini", came "other".`,
    );
    expect(await messageOf(ask(player, { ...saying("a"), tools: [batteryTool] }))).toContain(
      '(line 1) differs at tools[0]: recorded nothing, came {"name":"read_battery"',
    );
  });

  it("honours an abort", async () => {
    const player = createPlayer(await record([saying("a")]), "demo.jsonl");
    const aborted = player.answer(saying("a"), { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ kind: "aborted" });
  });

  it.each<[string, (text: string) => string, string]>([
    ["is empty", () => "\n", "demo.jsonl: the cassette is empty"],
    ["was cut off", (text) => text.slice(0, -30), "demo.jsonl:2: not a line of a cassette"],
    [
      "has another version",
      (text) => text.replace('"cassette":1', '"cassette":2'),
      "demo.jsonl:1 cassette: not a line",
    ],
    ["has an odd answer", (text) => text.replace('"answer 1"', "7"), "demo.jsonl:1 answer content: not a line"],
  ])("refuses a file that %s", async (_what, change, says) => {
    const text = await record([saying("a"), saying("b")]);
    expect(() => createPlayer(change(text), "demo.jsonl")).toThrow(
      expect.objectContaining({ kind: "unscripted", message: expect.stringContaining(says) }),
    );
  });

  it("says when the cassette was changed by hand", async () => {
    const text = (await record([saying("a")])).replace(/"digest":"[^"]*"/, '"digest":"0"');
    expect(await messageOf(ask(createPlayer(text, "demo.jsonl"), saying("a")))).toContain("was changed by hand");
  });
});
