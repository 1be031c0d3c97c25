import { createFakeClock } from "@leafmesh/testkit";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Model, type ModelAnswer, ModelError, type ModelErrorKind, type ModelRequest } from "./contract.ts";
import { answerWithRetries, DEFAULT_RETRY_POLICY, type Retry, retryDelayMs } from "./retry.ts";

const request: ModelRequest = {
  model: "m",
  messages: [{ role: "user", content: "hi" }],
  tools: [],
  toolChoice: "auto",
  parallelToolCalls: true,
};
const answer: ModelAnswer = { content: "hello", toolCalls: [], finishReason: "stop" };
const transient = (retryAfterMs?: number): ModelError => new ModelError("transient", "busy", { retryAfterMs });

describe("retryDelayMs", () => {
  const left = { leftMs: 1_000_000, random: 0.999_999 };

  it("doubles the range of the wait up to the cap", () => {
    const policy = { maxAttempts: { transient: 20 }, baseMs: 500, capMs: 20_000 };
    const longest = [1, 2, 3, 4, 5, 6, 7, 12].map((attempt) =>
      retryDelayMs({ error: transient(), attempt, ...left }, policy),
    );
    expect(longest).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]);
  });

  it("spreads over the whole range", () => {
    expect(retryDelayMs({ error: transient(), attempt: 3, leftMs: 1e6, random: 0 })).toBe(0);
    expect(retryDelayMs({ error: transient(), attempt: 3, leftMs: 1e6, random: 0.5 })).toBe(1000);
  });

  it("obeys the server's time and adds jitter to it", () => {
    expect(retryDelayMs({ error: transient(5000), attempt: 1, leftMs: 1e6, random: 0 })).toBe(5000);
    expect(retryDelayMs({ error: transient(5000), attempt: 1, leftMs: 1e6, random: 0.5 })).toBe(5250);
  });

  it("gives up when the wait would reach the deadline", () => {
    expect(retryDelayMs({ error: transient(5000), attempt: 1, leftMs: 5000, random: 0 })).toBeUndefined();
    expect(retryDelayMs({ error: transient(5000), attempt: 1, leftMs: 5001, random: 0 })).toBe(5000);
    expect(retryDelayMs({ error: transient(), attempt: 1, leftMs: 0, random: 0 })).toBeUndefined();
    expect(retryDelayMs({ error: transient(), attempt: 1, leftMs: -1, random: 0 })).toBeUndefined();
  });

  it.each<[ModelErrorKind, number]>([
    ["transient", 5],
    ["bad_answer", 2],
    ["bad_credential", 1],
    ["bad_request", 1],
    ["unscripted", 1],
    ["aborted", 1],
  ])("makes a call that fails as %s %i times at most", (kind, attempts) => {
    const error = new ModelError(kind, "no");
    const waits = [1, 2, 3, 4, 5, 6].map((attempt) => retryDelayMs({ error, attempt, leftMs: 1e6, random: 0.1 }));
    expect(waits.filter((waitMs) => waitMs !== undefined)).toHaveLength(attempts - 1);
    expect(waits[attempts - 1]).toBeUndefined();
  });

  it("never waits past the deadline, nor longer than the cap and the server's time", () => {
    fc.assert(
      fc.property(
        fc.nat(10),
        fc.option(fc.nat(1e7), { nil: undefined }),
        fc.integer({ min: -1000, max: 1e7 }),
        fc.double({ min: 0, max: 0.9999, noNaN: true }),
        (attempt, retryAfterMs, leftMs, random) => {
          const waitMs = retryDelayMs({ error: transient(retryAfterMs), attempt: attempt + 1, leftMs, random });
          if (waitMs === undefined) return;
          expect(waitMs).toBeGreaterThanOrEqual(retryAfterMs ?? 0);
          expect(waitMs).toBeLessThan(leftMs);
          expect(waitMs).toBeLessThanOrEqual((retryAfterMs ?? 0) + DEFAULT_RETRY_POLICY.capMs);
        },
      ),
    );
  });
});

describe("answerWithRetries", () => {
  /** Fails with each of the errors in turn, saying a word before, then answers. */
  function failing(...errors: readonly unknown[]): Model & { calls: number } {
    const model = {
      calls: 0,
      async answer(_request: ModelRequest, options: { signal: AbortSignal; onText?: (text: string) => void }) {
        const error = errors[model.calls++];
        options.onText?.(error === undefined ? "hello" : "hel");
        if (error !== undefined) throw error;
        return answer;
      },
      async close() {},
    };
    return model;
  }

  it("waits between attempts and says so before it does", async () => {
    const clock = createFakeClock();
    const model = failing(transient(), transient(3000));
    const told: (string | Retry)[] = [];
    const answering = answerWithRetries(model, request, {
      clock,
      deadlineAtMs: clock.nowMs() + 60_000,
      signal: new AbortController().signal,
      random: () => 0.5,
      onText: (text) => told.push(text),
      onRetry: (retry) => told.push(retry),
    });
    await clock.advance(249);
    expect(model.calls).toBe(1);
    await clock.advance(1);
    expect(model.calls).toBe(2);
    await clock.advance(3499);
    expect(model.calls).toBe(2);
    await clock.advance(1);
    expect(await answering).toBe(answer);
    expect(told).toEqual([
      "hel",
      { error: expect.any(ModelError), attempt: 1, waitMs: 250 },
      "hel",
      { error: expect.any(ModelError), attempt: 2, waitMs: 3500 },
      "hello",
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("throws the last error when the attempts are used up", async () => {
    const clock = createFakeClock();
    const errors = Array.from({ length: 6 }, (_, index) => new ModelError("transient", `busy ${index + 1}`));
    const model = failing(...errors);
    const answering = answerWithRetries(model, request, {
      clock,
      deadlineAtMs: clock.nowMs() + 600_000,
      signal: new AbortController().signal,
      random: () => 0.5,
    });
    const failed = expect(answering).rejects.toThrow("busy 5");
    await clock.advance(600_000);
    await failed;
    expect(model.calls).toBe(5);
  });

  it("does not try again what cannot work, nor hide a bug", async () => {
    const clock = createFakeClock();
    const options = { clock, deadlineAtMs: clock.nowMs() + 60_000, signal: new AbortController().signal };
    const refused = failing(new ModelError("bad_credential", "no"));
    await expect(answerWithRetries(refused, request, options)).rejects.toMatchObject({ kind: "bad_credential" });
    expect(refused.calls).toBe(1);
    const buggy = failing(new TypeError("oops"));
    await expect(answerWithRetries(buggy, request, options)).rejects.toThrow(TypeError);
    expect(buggy.calls).toBe(1);
  });

  it("does not start an attempt after the deadline", async () => {
    const clock = createFakeClock();
    const model = failing(transient(10_000));
    const options = { clock, deadlineAtMs: clock.nowMs() + 10_000, signal: new AbortController().signal };
    await expect(answerWithRetries(model, request, options)).rejects.toMatchObject({ retryAfterMs: 10_000 });
    expect(model.calls).toBe(1);
    expect(clock.pendingTimers).toBe(0);
  });

  it("ends the wait at once when it is aborted", async () => {
    const clock = createFakeClock();
    const model = failing(transient(5000));
    const controller = new AbortController();
    const answering = answerWithRetries(model, request, {
      clock,
      deadlineAtMs: clock.nowMs() + 60_000,
      signal: controller.signal,
    });
    const failed = expect(answering).rejects.toMatchObject({ kind: "aborted" });
    await clock.advance(1000);
    controller.abort();
    await failed;
    expect(model.calls).toBe(1);
    expect(clock.pendingTimers).toBe(0);
  });
});
