import { silentLogger } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import type { Backend, WaitRecord } from "../storage/contract.ts";
import { createEmbeddedBackend } from "../storage/embedded/index.ts";
import { createPendingCalls, type NewCall, type PendingCalls, type Settlement } from "./pending-calls.ts";

const opened: Backend[] = [];
afterEach(async () => {
  for (const backend of opened.splice(0)) await backend.close();
});

async function createWorld() {
  const clock = createFakeClock(1_000);
  const backend = createEmbeddedBackend({ path: ":memory:", durable: false, clock, logger: silentLogger });
  opened.push(backend);
  await backend.migrate();
  const times = { createdAt: 0, lastActiveAt: 0 };
  const run = {
    id: "r1",
    sessionId: "s1",
    agent: "a",
    status: "running",
    input: "",
    createdAt: 0,
    deadlineAt: 9,
  } as const;
  await backend.commit([
    { kind: "session.create", session: { id: "s1", meshName: "m", entryPoint: "chat", context: {}, ...times } },
    { kind: "run.create", run: { ...run, version: 1 } },
  ]);
  let ids = 0;
  const newId = (prefix: string) => `${prefix}_${++ids}`;
  const open = () => createPendingCalls({ backend, clock, newId });
  return { clock, backend, calls: open(), open };
}

const call = (id: string, position = 0, face: NewCall["face"] = "client"): NewCall => ({
  id,
  sessionId: "s1",
  runId: "r1",
  agent: "a",
  turn: 1,
  position,
  providerCallId: `call_${position}`,
  tool: "highlight",
  arguments: {},
  face,
  expiresAt: 61_000,
});

const answered = (result: unknown): Settlement<unknown> => ({ state: "answered", reached: "yes", result });
const expired: Settlement<unknown> = { state: "expired", reached: "maybe", result: { ended: "expired" } };
const all = (settlement: Settlement<unknown>) => new Map(["a", "b", "c"].map((id) => [id, settlement] as const));

async function openGroup(calls: PendingCalls): Promise<string> {
  const group = await calls.openGroup([call("a", 0), call("b", 1), call("c", 2)], {
    startedAt: 1_000,
    deadlineAt: 61_000,
  });
  if (group.status !== "moved") throw new Error(`not opened: ${group.status}`);
  return group.waitId;
}

describe("a group of calls", () => {
  it("is stored as offered under one wait, with what belongs to it, or not at all", async () => {
    const { backend, calls } = await createWorld();
    const frame = { kind: "frame.append", runId: "r1", at: 1, frame: { type: "suspend", data: {} } } as const;
    const group = await calls.openGroup(
      [call("a", 0), call("b", 1)],
      { startedAt: 1_000, deadlineAt: 61_000 },
      { writes: [frame] },
    );
    expect(group).toEqual({ status: "moved", waitId: "wait_1" });
    expect(await backend.wait("wait_1")).toMatchObject({ face: "client", callIds: ["a", "b"], state: "open" });
    expect(await backend.calls({ waitId: "wait_1" })).toMatchObject([
      { id: "a", state: "offered", reached: "maybe", createdAt: 1_000 },
      { id: "b", state: "offered", reached: "maybe" },
    ]);
    const stale = { kind: "run.update", runId: "r1", version: 9, patch: {} } as const;
    expect(await calls.openGroup([call("x")], { startedAt: 1_000, deadlineAt: 61_000 }, { writes: [stale] })).toEqual({
      status: "conflict",
    });
    expect(await backend.call("x")).toBeUndefined();
    expect(await backend.frames("r1")).toHaveLength(1);
  });

  it("is settled together, with the digest of the answer", async () => {
    const { backend, calls } = await createWorld();
    const waitId = await openGroup(calls);
    const settled = await calls.settleGroup({
      waitId,
      to: "complete",
      settlements: all(answered(1)),
      answerDigest: "d",
    });
    expect(settled).toEqual({ status: "moved" });
    expect(await backend.wait(waitId)).toMatchObject({ state: "complete", answerDigest: "d" });
    expect(await backend.calls({ states: ["answered"] })).toHaveLength(3);
    const again = await calls.settleGroup({ waitId, to: "expired", settlements: all(expired) });
    expect(again).toMatchObject({ status: "closed", wait: { state: "complete", answerDigest: "d" } });
  });

  it("is not settled in part, nor with calls that are not its own", async () => {
    const { backend, calls } = await createWorld();
    const waitId = await openGroup(calls);
    const part = new Map([["a", answered(1)]]);
    await expect(calls.settleGroup({ waitId, to: "complete", settlements: part })).rejects.toThrow("no settlement");
    const more = new Map([...all(answered(1)), ["d", answered(1)] as const]);
    await expect(calls.settleGroup({ waitId, to: "complete", settlements: more })).rejects.toThrow("other calls");
    expect(await backend.calls({ states: ["offered"] })).toHaveLength(3);
    expect(await calls.settleGroup({ waitId: "none", to: "complete", settlements: part })).toEqual({ status: "gone" });
  });

  it("stays open when what is to be written alongside has changed", async () => {
    const { backend, calls } = await createWorld();
    const waitId = await openGroup(calls);
    const stale = { kind: "run.update", runId: "r1", version: 9, patch: {} } as const;
    const group = { waitId, to: "complete", settlements: all(answered(1)) } as const;
    expect(await calls.settleGroup(group, { writes: [stale] })).toEqual({ status: "conflict" });
    expect(await backend.wait(waitId)).toMatchObject({ state: "open" });
    expect(await backend.calls({ states: ["offered"] })).toHaveLength(3);
  });

  it("has one winner, however many processes answer, expire and cancel it at once", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("complete", "expired", "cancelled"), { minLength: 2, maxLength: 8 }),
        fc.array(fc.nat(3), { minLength: 8, maxLength: 8 }),
        async (kinds, delays) => {
          const { backend, calls, open } = await createWorld();
          const waitId = await openGroup(calls);
          const outcomes = await Promise.all(
            kinds.map(async (to, index) => {
              for (let turn = 0; turn < (delays[index] ?? 0); turn++)
                await new Promise((resolve) => setImmediate(resolve));
              const settlements = all(to === "complete" ? answered(index) : { ...expired, result: index });
              return open().settleGroup({ waitId, to, settlements, answerDigest: `${index}` });
            }),
          );
          const winners = outcomes.flatMap(({ status }, index) => (status === "moved" ? [index] : []));
          expect(winners).toHaveLength(1);
          const [winner = -1] = winners;
          const wait = (await backend.wait(waitId)) as WaitRecord;
          expect(wait).toMatchObject({ state: kinds[winner], answerDigest: `${winner}` });
          for (const outcome of outcomes) if (outcome.status === "closed") expect(outcome.wait).toEqual(wait);
          expect((await backend.calls({ waitId })).map(({ result }) => result)).toEqual([winner, winner, winner]);
          await backend.close();
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("a late result", () => {
  it("is kept once, beside an end that stays as it is, and never on an open call", async () => {
    const { backend, calls } = await createWorld();
    const moved = await calls.open(call("a", 0, "bridge"));
    if (moved.status !== "moved") throw new Error("not opened");
    const late = (digest: string) => ({ digest, result: { digest } });
    const open = await backend.call("a");
    if (open) await calls.keepLate(open, late("early"));
    expect((await backend.call("a"))?.late).toBeUndefined();
    await calls.settle(moved.call, expired);
    const settled = await backend.call("a");
    if (!settled) throw new Error("no call");
    await Promise.all([calls.keepLate(settled, late("first")), calls.keepLate(settled, late("second"))]);
    await calls.keepLate(settled, late("third"));
    expect(await backend.call("a")).toMatchObject({
      state: "expired",
      result: expired.result,
      late: { at: 1_000, digest: "first", result: { digest: "first" } },
    });
  });

  it("does not get in the way of the run that uses the call's end", async () => {
    const { backend, calls } = await createWorld();
    const moved = await calls.open(call("a", 0, "bridge"));
    if (moved.status !== "moved") throw new Error("not opened");
    await calls.settle(moved.call, expired);
    const settled = await backend.call("a");
    if (!settled) throw new Error("no call");
    const used = { state: "used", usedAt: 5 } as const;
    await backend.commit([{ kind: "call.update", callId: "a", version: settled.version, patch: used }]);
    await calls.keepLate(settled, { digest: "d", result: 1 });
    expect(await backend.call("a")).toMatchObject({ state: "used", late: { digest: "d" } });
  });
});
