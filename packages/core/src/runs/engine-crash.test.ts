/** The process dies at every step a run takes, and the next start has to make the best of what is stored. */

import { randomId } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createPendingCalls } from "../calls/index.ts";
import type { ModelAnswer } from "../models/contract.ts";
import type { Backend } from "../storage/contract.ts";
import type { Tool } from "../tools/contract.ts";
import {
  call,
  callName,
  calls,
  checkHistory,
  createDisk,
  type Death,
  done,
  FunctionModel,
  harness,
  memoryBackend,
  mortalBackend,
  recordingTool,
  says,
  testAgent,
  testMesh,
  tool,
} from "./testing/index.ts";

/** What happened outside, counted by call. */
type Acts = Map<string, number>;

interface Play {
  /** What the model says, turn by turn; an answer depends on how far the conversation has come, as a real model's. */
  readonly turns: readonly ModelAnswer[];
  readonly parallel?: boolean | undefined;
  readonly limit?: number | undefined;
  /** One entry a process. The process after the last of them lives. */
  readonly deaths: readonly Death[];
  /** Whether each process opens the file anew; else they share a store in memory, which is faster. */
  readonly onDisk?: boolean | undefined;
}

/** Plays one message through the deaths of its processes and gives back what is stored and what happened. */
async function play({ turns, parallel = true, limit = 20, deaths, onDisk = false }: Play) {
  const clock = createFakeClock();
  await using disk = await createDisk(clock);
  const shared = onDisk ? undefined : await memoryBackend(clock);
  const open = async () => shared ?? disk.open();
  const acts: Acts = new Map();
  const act = (name: string) => acts.set(name, (acts.get(name) ?? 0) + 1);
  const mesh = testMesh([testAgent({ allowParallelToolCalls: parallel, maxToolCallsPerMessage: limit })]);
  const modelFor = () =>
    new FunctionModel(({ messages, toolChoice }) => {
      const turn = messages.filter(({ role }) => role === "assistant").length;
      const next = turns[turn];
      return !next || toolChoice === "none" ? says("The end.") : next;
    });
  const toolsFor = (backend: Backend): Tool[] => [
    recordingTool("ask", () => createPendingCalls({ backend, clock, newId: randomId }), acts, clock),
    tool("note", (scope) => {
      act(callName(scope));
      return done("noted");
    }),
    tool("bad", (scope) => {
      act(callName(scope));
      throw new Error("bug");
    }),
  ];

  let runId: string | undefined;
  let fresh = await open();
  for (const death of deaths) {
    const { backend, died } = mortalBackend(fresh, death);
    const { engine } = await harness({ model: modelFor(), tools: toolsFor(backend), mesh, clock, backend });
    const lived = (async () => {
      await engine.start();
      if (!runId) void engine.submit({ message: "go" }).catch(() => {});
      for (;;) {
        const [run] = await fresh.runs({});
        if (run?.status === "succeeded") return "ended";
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const how = await Promise.race([died.then(() => "died"), lived]);
    [runId] = (await fresh.runs({})).map(({ id }) => id);
    if (how === "ended") break;
    fresh = await open();
  }
  const { backend } = mortalBackend(fresh, { atCommit: Number.POSITIVE_INFINITY, stored: true });
  const last = await harness({ model: modelFor(), tools: toolsFor(backend), mesh, clock, backend });
  await last.engine.start();
  runId ??= (await last.engine.submit({ message: "go" })).runId;
  const run = await last.engine.waitForRun(runId, AbortSignal.timeout(10_000));
  const messages = await fresh.messages(run.sessionId);
  return {
    run,
    acts,
    messages,
    records: await fresh.calls({ runId }),
    events: await fresh.events(run.sessionId),
    waits: await Promise.all((await fresh.calls({ runId })).map(({ waitId }) => fresh.wait(waitId))),
  };
}

const HAPPENED = /noted|"outcome":"done"/;
const NOT_HAPPENED = /"outcome":"unreachable"|no tool named|not JSON|not a JSON object|used up/;
const MAY_HAVE_HAPPENED = /"outcome":"failed"|[Ii]t may have happened/;

/** The history is closed, nothing happened twice, and the model was told no lie about any call. */
function check({ run, acts, messages, records, waits, events }: Awaited<ReturnType<typeof play>>): void {
  checkHistory(messages);
  expect(run).toMatchObject({ status: "succeeded", reply: "The end." });
  expect([...acts.values()].every((times) => times === 1)).toBe(true);
  expect(new Set(records.map(({ state }) => state))).toEqual(new Set(records.length > 0 ? ["used"] : []));
  expect(new Set(waits.map((wait) => wait?.state))).toEqual(new Set(records.length > 0 ? ["continued"] : []));
  let position = 0;
  for (const { turn, message } of messages) {
    position = message.role === "tool" ? position : 0;
    if (message.role !== "tool") continue;
    const happened = acts.get(`${run.id}:${turn}:${position++}`) ?? 0;
    if (HAPPENED.test(message.content)) expect([message.content, happened]).toEqual([message.content, 1]);
    else if (NOT_HAPPENED.test(message.content)) expect([message.content, happened]).toEqual([message.content, 0]);
    else expect(message.content).toMatch(MAY_HAVE_HAPPENED);
  }
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index + 1));
  expect(events.filter(({ type }) => type === "run.finished")).toHaveLength(1);
  const called = events.filter(({ type }) => type === "tool.called").length;
  expect(events.filter(({ type }) => type === "tool.finished")).toHaveLength(called);
}

const TWO_TURNS: readonly ModelAnswer[] = [
  calls(call("ask", { action: "photo" }, "a"), call("note", {}, "b"), call("lock", {}, "c")),
  calls(call("note", {}, "a"), call("ask", "{", "b")),
];

describe("a process that dies", { timeout: 60_000 }, () => {
  it("at any commit of a run leaves a history that goes on, and executes nothing twice", async () => {
    let commits = 0;
    for (let atCommit = 1; ; atCommit++) {
      const results = await Promise.all(
        [true, false].map((stored) => play({ turns: TWO_TURNS, deaths: [{ atCommit, stored }], onDisk: true })),
      );
      for (const result of results) check(result);
      const resumed = results.some(({ events }) =>
        events.some(({ type, payload }) => type === "run.started" && "resumed" in payload),
      );
      if (!resumed && atCommit > 3) break;
      commits = atCommit;
    }
    // Submit and start, answer; the ask opened, offered, settled; results; answer, results; reply.
    expect(commits).toBe(9);
  });

  it("at any commit of the recovery, too", async () => {
    for (let first = 2; first <= 8; first++) {
      for (let second = 1; second <= 6; second++) {
        const deaths = [
          { atCommit: first, stored: true },
          { atCommit: second, stored: second % 2 === 0 },
        ];
        check(await play({ turns: TWO_TURNS, deaths }));
      }
    }
  });

  it("says what is not known, and of what certainly did not happen that it did not", async () => {
    const results = async (atCommit: number, stored: boolean) => {
      const { messages } = await play({ turns: TWO_TURNS, deaths: [{ atCommit, stored }] });
      return messages.flatMap(({ turn, message }) => (turn === 1 && message.role === "tool" ? [message.content] : []));
    };
    // The answer is stored and nothing is known of its calls: the ask has no record, so it has not begun.
    expect(await results(2, true)).toEqual([
      expect.stringMatching(/"outcome":"done"/),
      expect.stringMatching(/outcome is unknown after a restart/),
      expect.stringMatching(/outcome is unknown after a restart/),
    ]);
    // The ask was about to be offered: nothing happened.
    expect((await results(4, false))[0]).toMatch(/"outcome":"unreachable"/);
    // The ask was offered and its answer got lost.
    expect((await results(5, false))[0]).toMatch(/"outcome":"failed"/);
    // The ask was settled.
    expect((await results(5, true))[0]).toMatch(/"outcome":"done"/);
  });
});

describe("whatever a model asks for", { timeout: 60_000 }, () => {
  const toolCall = fc.constantFrom(
    call("ask", {}, "1"),
    call("note", {}, "2"),
    call("bad", {}, "3"),
    call("lock", {}, "4"),
    call("note", "{", "5"),
    call("ask", "[]", "6"),
  );
  const turn = fc
    .record({
      asked: fc.array(toolCall, { minLength: 1, maxLength: 4 }),
      text: fc.constantFrom(null, "Let me see."),
      distinct: fc.boolean(),
    })
    .map(({ asked, text, distinct }): ModelAnswer => {
      const toolCalls = asked.map((each, index) => (distinct ? { ...each, id: `${each.id}${index}` } : each));
      return { ...calls(...toolCalls), content: text };
    });

  it("and wherever processes die, the history is one that providers accept", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(turn, { maxLength: 4 }),
        fc.array(fc.record({ atCommit: fc.integer({ min: 1, max: 16 }), stored: fc.boolean() }), { maxLength: 3 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 8 }),
        async (turns, deaths, parallel, limit) => check(await play({ turns, deaths, parallel, limit })),
      ),
      { numRuns: 60 },
    );
  });
});
