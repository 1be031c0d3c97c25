import { randomBytes } from "node:crypto";
import { randomId } from "@leafmesh/protocol";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { createPendingCalls, type PendingCalls } from "../../calls/index.ts";
import type { Mesh } from "../../config/mesh.ts";
import type { Model } from "../../models/contract.ts";
import { createSealer, SECRET_KEY_BYTES } from "../../security/sealer.ts";
import type { Backend } from "../../storage/contract.ts";
import type { Tool } from "../../tools/contract.ts";
import { createEngine, type Engine, type EngineDependencies } from "../engine.ts";
import { recordingLogger } from "./logger.ts";
import { testMesh } from "./mesh.ts";
import { memoryBackend } from "./stores.ts";
import { provide } from "./tools.ts";

export interface Harness {
  readonly engine: Engine;
  readonly backend: Backend;
  readonly clock: FakeClock;
  readonly logger: ReturnType<typeof recordingLogger>;
  readonly pending: PendingCalls;
}

export interface HarnessOptions {
  readonly model: Model;
  readonly tools?: readonly Tool[] | undefined;
  readonly mesh?: Mesh | undefined;
  readonly clock?: FakeClock | undefined;
  readonly backend?: Backend | undefined;
  readonly more?: Partial<EngineDependencies> | undefined;
}

/** An engine that is not started yet, on a store of its own unless one is given. */
export async function harness(options: HarnessOptions): Promise<Harness> {
  const clock = options.clock ?? createFakeClock();
  const backend = options.backend ?? (await memoryBackend(clock));
  const logger = recordingLogger();
  const { model } = options;
  const engine = createEngine({
    mesh: options.mesh ?? testMesh(),
    backend,
    models: () => ({ model: async () => model, close: () => model.close() }),
    toolProviders: [provide(...(options.tools ?? []))],
    sealer: createSealer(randomBytes(SECRET_KEY_BYTES)),
    uploads: { open: async () => undefined },
    clock,
    newId: randomId,
    random: () => 0,
    logger,
    ...options.more,
  });
  return { engine, backend, clock, logger, pending: createPendingCalls({ backend, clock, newId: randomId }) };
}

/** Submits a message and waits for its run's end. */
export async function converse(engine: Engine, message: string, sessionId?: string) {
  const submitted = await engine.submit({ message, sessionId });
  return { ...submitted, run: await engine.waitForRun(submitted.runId, AbortSignal.timeout(10_000)) };
}

/** Lets time pass in steps of half a second until `promise` has settled. */
export async function passTime<Value>(clock: FakeClock, promise: Promise<Value>): Promise<Value> {
  let settled = false;
  const settle = (): void => {
    settled = true;
  };
  promise.then(settle, settle);
  for (let step = 0; !settled; step++) {
    if (step > 2_000) throw new Error("it does not settle, however much time passes");
    await clock.advance(500);
  }
  return promise;
}
