/** Runs whose client executes tools, as that client meets them over HTTP. For tests. */
import type { ModelAnswer } from "@leafmesh/core";
import type { Clock, RunFrameView } from "@leafmesh/protocol";
import type { BackendUnderTest } from "@leafmesh/testkit/suites";
import { afterEach } from "vitest";
import { asks, isType, type RunsServer, says, startRunsServer } from "../test-runs.ts";
import type { TestServerOptions } from "../test-server.ts";
import { passing } from "./bridge-world.ts";

export type RunsOptions = Omit<TestServerOptions, "answer">;

export interface WaitingRun {
  readonly server: RunsServer;
  readonly runId: string;
  readonly suspend: RunFrameView | undefined;
}

export const result = (tool_call_id: string, content: unknown = "highlighted 1 element", more = {}) => ({
  tool_call_id,
  content,
  ...more,
});

/** Starts servers of runs, and closes them after each test. */
export function runsWorlds(open?: (clock?: Clock) => Promise<BackendUnderTest>) {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  const store = async (clock?: Clock): Promise<BackendUnderTest | undefined> => {
    const opened = await open?.(clock);
    if (opened) closing.push(() => opened.dispose());
    return opened;
  };
  const start = async (answers: readonly ModelAnswer[], options: RunsOptions = {}): Promise<RunsServer> => {
    const backend = options.backend ?? (await store(options.clock))?.backend;
    const server = await startRunsServer(answers, { ...options, ...(backend ? { backend } : {}) });
    let closed: Promise<void> | undefined;
    const close = server.close.bind(server);
    server.close = () => {
      closed ??= passing(options.clock, close());
      return closed;
    };
    closing.push(() => server.close());
    return server;
  };
  /** A run that waits for `call-1` of `highlight`. */
  const waiting = async (
    answers: readonly ModelAnswer[] = [says("It is marked.")],
    options: RunsOptions = {},
    more: Record<string, unknown> = {},
  ): Promise<WaitingRun> => {
    const server = await start([asks(["highlight"]), ...answers], options);
    const runId = await server.submit(more);
    const frames = await server.frames(runId, isType("suspend"));
    return { server, runId, suspend: frames.at(-1) };
  };
  return { start, waiting, store };
}
