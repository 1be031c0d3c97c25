import { describe, expect, it } from "vitest";
import { isExecutorPresent, lostAt } from "./presence.ts";

const nobody = { streams: 0, executors: 0, executorDeclared: false };
const declared = { ...nobody, executorDeclared: true };

describe("an executor", () => {
  it("is any attached stream while no stream of the session ever said that it executes", () => {
    expect(isExecutorPresent(nobody, 0)).toBe(false);
    expect(isExecutorPresent({ ...nobody, streams: 1 }, 0)).toBe(true);
    expect(isExecutorPresent({ ...nobody, streamLeftAt: 99 }, 100)).toBe(false);
  });

  it("is only a stream that says so from then on, with 5 s of grace", () => {
    expect(isExecutorPresent({ ...declared, streams: 3 }, 0)).toBe(false);
    expect(isExecutorPresent({ ...declared, streams: 1, executors: 1 }, 0)).toBe(true);
    expect(isExecutorPresent({ ...declared, executorLeftAt: 1_000 }, 6_000)).toBe(true);
    expect(isExecutorPresent({ ...declared, executorLeftAt: 1_000 }, 6_001)).toBe(false);
  });

  it("that leaves loses its calls 5 s later, one that was never declared does not", () => {
    expect(lostAt({ ...nobody, streamLeftAt: 5 }, 0)).toBeUndefined();
    expect(lostAt({ ...declared, executors: 1, executorLeftAt: 5 }, 0)).toBeUndefined();
    expect(lostAt({ ...declared, executorLeftAt: 1_000 }, 0)).toBe(6_000);
    expect(lostAt({ ...declared, executorLeftAt: 1_000 }, 50_000)).toBe(55_000);
    expect(lostAt(declared, 50_000)).toBe(55_000);
  });
});
