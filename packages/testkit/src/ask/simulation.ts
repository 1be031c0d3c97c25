/**
 * Thousands of asks against devices, rooms, notifiers, stores and meshes that fail, on one fake clock. What comes out is
 * every outcome beside what really happened.
 */
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { silentLogger } from "@leafmesh/protocol";
import { createFakeClock, type FakeClock } from "../fake-clock.ts";
import { type AskProcess, type AskProcessDependencies, Conversation, type SimulatedAsk } from "./conversation.ts";
import { faultNames } from "./fault-plan.ts";
import type { LossProfile } from "./loss-profiles.ts";
import { createRandom } from "./random.ts";
import { findViolations, type Violation } from "./truth.ts";

export interface SimulationOptions {
  readonly seed: number;
  /** At least this many. */
  readonly asks: number;
  /** What the rooms can see of losses; left out, whatever any room could. */
  readonly profile?: LossProfile | undefined;
  /** Builds the tool under test on what it is given. */
  startProcess(dependencies: AskProcessDependencies): AskProcess;
}

export interface Simulation {
  readonly seed: number;
  readonly asks: readonly SimulatedAsk[];
  readonly faults: ReadonlyMap<string, number>;
  readonly violations: readonly { readonly ask: SimulatedAsk; readonly violation: Violation }[];
  /** Timers that were still armed, and asks that were still open, when everything was over. */
  readonly left: { readonly timers: number; readonly asks: number };
}

/** Conversations that run side by side. */
const WAVE = 20;
const MOST_ASKS = 5;

export async function simulateAsks({ seed, asks, profile, startProcess }: SimulationOptions): Promise<Simulation> {
  const random = createRandom(seed);
  const clock = createFakeClock();
  const backend = createEmbeddedBackend({ path: ":memory:", durable: false, clock, logger: silentLogger });
  await backend.migrate();
  const done: SimulatedAsk[] = [];
  const faults = new Map<string, number>();
  const count = (name: string): void => void faults.set(name, (faults.get(name) ?? 0) + 1);
  const left = { timers: 0, asks: 0 };
  for (let wave = 0; done.length < asks; wave++) {
    const conversations = Array.from({ length: WAVE }, (_, number) => {
      return new Conversation({
        id: `c${wave}-${number}`,
        asks: random.between(1, MOST_ASKS),
        random: createRandom(random.between(0, 2 ** 31)),
        clock,
        backend,
        profile,
        startProcess,
      });
    });
    await runToTheEnd(conversations, clock);
    for (const conversation of conversations) {
      conversation.faults.forEach(count);
      done.push(...(await conversation.asks()));
      left.timers += conversation.left.timers;
      left.asks += conversation.left.asks;
    }
  }
  await backend.close();
  for (const { plan } of done) faultNames(plan).forEach(count);
  return {
    seed,
    asks: done,
    faults,
    violations: done.flatMap((ask) => findViolations(ask).map((violation) => ({ ask, violation }))),
    left,
  };
}

/**
 * Time goes on whenever nothing but time is waited for, until nothing is left that it could bring. Asks that have no
 * outcome by then never get one.
 */
async function runToTheEnd(conversations: readonly Conversation[], clock: FakeClock): Promise<void> {
  const failures: unknown[] = [];
  for (const conversation of conversations) conversation.run().catch((error: unknown) => failures.push(error));
  do {
    while (conversations.some(({ isBusy }) => isBusy)) await nextTurn();
  } while (await clock.advanceToNext());
  if (failures.length > 0) throw new AggregateError(failures, "conversations failed");
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
