import type { TaskEnvelope } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { decline, fail, sendForApproval } from "./answers.ts";
import { runHandler, type Task, type TaskHandler, TaskStopped } from "./handlers.ts";
import type { Progress } from "./progress.ts";

const envelope: TaskEnvelope = {
  type: "task",
  id: "ask_1",
  action: "battery.read",
  inputs: { precise: true },
  budget_ms: 60_000,
};

function setUp(handler: TaskHandler) {
  const clock = createFakeClock();
  const stop = new AbortController();
  const progress: Progress[] = [];
  const answer = runHandler({
    handler,
    task: envelope,
    mesh: "support",
    signal: stop.signal,
    clock,
    fetch: globalThis.fetch,
    stopWithinMs: 5000,
    sendProgress: (sent) => progress.push(sent),
  });
  return { clock, stop, progress, answer };
}

async function answerTo(handler: TaskHandler) {
  return setUp(handler).answer;
}

describe("what a handler is given", () => {
  it("is the task, its mesh and a signal", async () => {
    let seen: Task | undefined;
    await answerTo((task) => {
      seen = task;
    });
    expect(seen).toMatchObject({ action: "battery.read", inputs: { precise: true }, ask: "ask_1", mesh: "support" });
    expect(seen?.signal.aborted).toBe(false);
  });
});

describe("what a handler says", () => {
  it("is done with data when it returns a value", async () => {
    expect(await answerTo(() => ({ level: 71 }))).toEqual({ outcome: "done", data: { level: 71 } });
    expect(await answerTo(async () => null)).toEqual({ outcome: "done", data: null });
    expect(await answerTo(() => undefined)).toEqual({ outcome: "done" });
  });

  it("is what JSON makes of the value", async () => {
    expect(await answerTo(() => ({ at: new Date(0), gone: undefined }))).toEqual({
      outcome: "done",
      data: { at: "1970-01-01T00:00:00.000Z" },
    });
  });

  it("is declined, sent for approval or failed when it says so, returned or thrown", async () => {
    const declined = { outcome: "declined", error: { message: "not now" } };
    expect(await answerTo(() => decline("not now"))).toEqual(declined);
    expect(await answerTo(() => Promise.reject(decline("not now")))).toEqual(declined);
    expect(await answerTo(() => decline())).toEqual({ outcome: "declined" });
    expect(await answerTo(() => sendForApproval("on the lock screen"))).toEqual({
      outcome: "sent_for_approval",
      error: { message: "on the lock screen" },
    });
    expect(await answerTo(() => fail("no_camera", "There is no camera"))).toEqual({
      outcome: "failed",
      error: { code: "no_camera", message: "There is no camera", may_have_happened: false },
    });
    expect(await answerTo(() => fail("cut_off", "Lost it", { mayHaveHappened: true }))).toMatchObject({
      error: { may_have_happened: true },
    });
  });

  it("cannot be faked by data that looks like an answer", async () => {
    const lookalike = { outcome: "declined", error: { message: "fake" } };
    expect(await answerTo(() => lookalike)).toEqual({ outcome: "done", data: lookalike });
  });

  it("is failed, and may have happened, when it throws", async () => {
    const failed = { outcome: "failed", error: { code: "handler_error", message: "boom", may_have_happened: true } };
    expect(
      await answerTo(() => {
        throw new Error("boom");
      }),
    ).toEqual(failed);
    expect(await answerTo(() => Promise.reject(new Error("boom")))).toEqual(failed);
    expect(await answerTo(() => Promise.reject("boom"))).toEqual(failed);
  });

  it("is failed, and may have happened, when its result is not JSON", async () => {
    const loop: Record<string, unknown> = {};
    loop.loop = loop;
    for (const value of [loop, 1n, () => {}, Symbol("no")]) {
      expect(await answerTo(() => value)).toMatchObject({
        outcome: "failed",
        error: { code: "bad_result", may_have_happened: true },
      });
    }
  });

  it("fits the protocol's limits", async () => {
    expect(await answerTo(() => fail("c".repeat(100), "m".repeat(3000)))).toEqual({
      outcome: "failed",
      error: { code: "c".repeat(64), message: "m".repeat(2000), may_have_happened: false },
    });
  });
});

describe("a handler that is stopped", () => {
  const untilStopped = ({ signal }: Task): Promise<never> =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

  it("hears why", async () => {
    let why: unknown;
    const { stop, answer } = setUp(async (task) => {
      await untilStopped(task).catch(() => {});
      why = task.signal.reason;
    });
    stop.abort(new TaskStopped("cancelled", "not needed"));
    await answer;
    expect(why).toMatchObject({ stopCause: "cancelled", message: "not needed" });
  });

  it("answers with the cause when it throws", async () => {
    const { stop, answer } = setUp(untilStopped);
    stop.abort(new TaskStopped("timed_out", "too late"));
    expect(await answer).toEqual({
      outcome: "failed",
      error: { code: "timed_out", message: "too late", may_have_happened: true },
    });
  });

  it("may still say what it did", async () => {
    const { stop, answer } = setUp(async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { sent: true };
    });
    stop.abort(new TaskStopped("cancelled", "not needed"));
    expect(await answer).toEqual({ outcome: "done", data: { sent: true } });
  });

  it("is given up on when it does not end", async () => {
    const { clock, stop, answer } = setUp(() => new Promise(() => {}));
    stop.abort(new TaskStopped("cancelled", "not needed"));
    let ended = false;
    void answer.then(() => {
      ended = true;
    });
    await clock.advance(4999);
    expect(ended).toBe(false);
    await clock.advance(1);
    expect(await answer).toMatchObject({ outcome: "failed", error: { code: "cancelled", may_have_happened: true } });
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("progress", () => {
  it("ends with the handler", async () => {
    let report: Task["progress"] | undefined;
    const { answer, progress } = setUp((task) => {
      report = task.progress;
      task.progress("started", 5);
    });
    await answer;
    report?.("too late", 99);
    expect(progress).toEqual([{ note: "started", pct: 5 }]);
  });
});
