/** Judges any room service from outside, by its base URL and an API key. */
import type { Secret } from "@leafmesh/protocol";
import type { ConformanceTest } from "./conformance-test.ts";
import { abuseTests } from "./tests/abuse.ts";
import { additionTests } from "./tests/additions.ts";
import { closeTests } from "./tests/close.ts";
import { connectTests } from "./tests/connect.ts";
import { httpTests } from "./tests/http.ts";
import { lossTests } from "./tests/loss.ts";
import { taskTests } from "./tests/task.ts";
import { Failure, Skipped } from "./verdict.ts";
import { Workbench } from "./workbench.ts";

/** Tests that wait for time to pass run beside each other; those that press the service run alone, after them. */
const PARALLEL_TESTS: readonly ConformanceTest[] = [
  ...httpTests,
  ...connectTests,
  ...taskTests,
  ...lossTests,
  ...closeTests,
  ...additionTests,
];
const LONE_TESTS: readonly ConformanceTest[] = abuseTests;
const AT_ONCE = 8;

/** Every test, in the order of the report. */
export const CONFORMANCE_TESTS: readonly Pick<ConformanceTest, "id" | "title">[] = [...PARALLEL_TESTS, ...LONE_TESTS];

export interface ConformanceResult {
  readonly id: string;
  readonly title: string;
  readonly status: "pass" | "fail" | "skipped";
  /** For `fail` what was expected and what came instead, for `skipped` why. */
  readonly reason?: string | undefined;
  readonly durationMs: number;
}

export interface ConformanceReport {
  readonly url: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** In the order of {@link CONFORMANCE_TESTS}. */
  readonly results: readonly ConformanceResult[];
}

export interface ConformanceRun {
  /** Base URL of the service: `https://rooms.example.com`. */
  readonly url: string;
  readonly key: Secret;
  /** Ids or their beginnings (`T`, `L4`); left out, all. Throws a `RangeError` for one that fits no test. */
  readonly only?: readonly string[] | undefined;
  /** Called as results come, in the order of their end. */
  readonly onResult?: ((result: ConformanceResult) => void) | undefined;
  /** Starts no further test once aborted; those that remain are `skipped`. */
  readonly signal?: AbortSignal | undefined;
}

/** Runs the tests. Resolves with the report whatever the service does. */
export async function runConformance(run: ConformanceRun): Promise<ConformanceReport> {
  const isWanted = selection(run.only);
  const parallel = PARALLEL_TESTS.filter(isWanted);
  const lone = LONE_TESTS.filter(isWanted);
  const results = new Map<string, ConformanceResult>();
  const judge = async (test: ConformanceTest): Promise<void> => {
    const result = await judgeOne(test, run);
    results.set(test.id, result);
    run.onResult?.(result);
  };
  const queue = [...parallel];
  const worker = async (): Promise<void> => {
    for (let test = queue.shift(); test; test = queue.shift()) await judge(test);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  for (const test of lone) await judge(test);

  const ordered = [...parallel, ...lone].flatMap(({ id }) => results.get(id) ?? []);
  const count = (status: ConformanceResult["status"]) => ordered.filter((result) => result.status === status).length;
  return { url: run.url, passed: count("pass"), failed: count("fail"), skipped: count("skipped"), results: ordered };
}

function selection(only: readonly string[] | undefined): (test: ConformanceTest) => boolean {
  if (!only || only.length === 0) return () => true;
  for (const wanted of only) {
    if (!CONFORMANCE_TESTS.some(({ id }) => id.startsWith(wanted))) {
      throw new RangeError(
        `no test is called ${wanted}; there are ${CONFORMANCE_TESTS.map(({ id }) => id).join(", ")}`,
      );
    }
  }
  return ({ id }) => only.some((wanted) => id.startsWith(wanted));
}

async function judgeOne(test: ConformanceTest, run: ConformanceRun): Promise<ConformanceResult> {
  const { id, title } = test;
  const startMs = performance.now();
  const result = (status: ConformanceResult["status"], reason?: string): ConformanceResult => {
    return { id, title, status, ...(reason === undefined ? {} : { reason }), durationMs: performance.now() - startMs };
  };
  if (run.signal?.aborted) return result("skipped", "interrupted");
  const bench = new Workbench(run.url, run.key);
  try {
    await test.run(bench);
    return result("pass");
  } catch (error) {
    if (error instanceof Skipped) return result("skipped", error.message);
    if (error instanceof Failure) return result("fail", error.message);
    return result("fail", error instanceof Error ? `${error.name}: ${error.message}` : String(error));
  } finally {
    await bench.cleanUp();
  }
}
