/**
 * What agents are told, held against what devices really did: thousands of asks with faults at every step, on the real
 * machine, its real driver and the real store. `TRUTH_SEED` and `TRUTH_ASKS` choose another run.
 */
import {
  type AskProcessDependencies,
  formatSimulation,
  type LossProfile,
  lossProfiles,
  type Simulation,
  simulateAsks,
} from "@leafmesh/testkit/ask";
import { describe, expect, it } from "vitest";
import { stepAsk } from "./ask-machine.ts";
import type { AskServices } from "./ask-services.ts";
import type { AskEffect } from "./ask-state.ts";
import type { ConnectionPool } from "./connections.ts";
import { assembleDeviceAction } from "./tool.ts";

type StepFunction = AskServices["step"];

const SEED = Number(process.env.TRUTH_SEED ?? 1);
const ASKS = Number(process.env.TRUTH_ASKS ?? 6_000);
/** Over the rooms of one provider. */
const ASKS_A_PROVIDER = Number(process.env.TRUTH_ASKS ?? 1_000);
/** Of a machine that is broken; the rarest of these needs a process that dies at one certain moment. */
const ENOUGH_ASKS = 2_500;
const KNOWN_SEED = 1;
const TIME_MS = 180_000;

function poolOf({ notifier, rooms }: AskProcessDependencies): ConnectionPool {
  return {
    notifier: (name) => ({ name, provider: "faulty", notifier, accepts: () => true }),
    room: () => ({ name: null, provider: "faulty", rooms }),
    checkAll: async () => [],
    hold: () => () => {},
    retire() {},
    async close() {},
  };
}

function simulate(
  asks: number,
  step: StepFunction = stepAsk,
  seed = SEED,
  profile: LossProfile | undefined = undefined,
): Promise<Simulation> {
  return simulateAsks({
    seed,
    asks,
    profile,
    startProcess(dependencies) {
      const pool = poolOf(dependencies);
      return assembleDeviceAction({ ...dependencies, connectionsOf: () => pool }, step);
    },
  });
}

function countOf(simulation: Simulation, violation: string): number {
  return simulation.violations.filter((found) => found.violation === violation).length;
}

describe("an agent is told the truth", () => {
  it(
    "whatever fails",
    async () => {
      const simulation = await simulate(ASKS);
      console.log(formatSimulation(simulation));
      expect(simulation.asks.length).toBeGreaterThanOrEqual(ASKS);
      expect(simulation.violations).toEqual([]);
      expect(simulation.left).toEqual({ timers: 0, asks: 0 });
      const share = (matches: (ask: Simulation["asks"][number]) => boolean) =>
        simulation.asks.filter(matches).length / simulation.asks.length;
      expect(share(({ result }) => result?.outcome === "done")).toBeGreaterThan(0.2);
      expect(share(({ result }) => result?.may_have_happened === true)).toBeLessThan(0.25);
      expect(share(({ recovered }) => recovered)).toBeGreaterThan(0.02);
    },
    TIME_MS,
  );
});

describe("an agent is told the truth over rooms that lose devices as those of", () => {
  it.each(Object.entries(lossProfiles))(
    "%s",
    async (_provider, profile) => {
      const { violations, left, asks } = await simulate(ASKS_A_PROVIDER, stepAsk, SEED, profile);
      expect(asks.length).toBeGreaterThanOrEqual(ASKS_A_PROVIDER);
      expect(violations).toEqual([]);
      expect(left).toEqual({ timers: 0, asks: 0 });
    },
    TIME_MS,
  );

  it(
    "mqtt, and the simulation sees a room that promises more than it can keep",
    async () => {
      const step: StepFunction = (state, event) =>
        stepAsk(state, event.type === "left" ? { ...event, delivered: "no" } : event);
      const simulation = await simulate(ENOUGH_ASKS, step, KNOWN_SEED, lossProfiles.mqtt);
      expect(countOf(simulation, "hidden")).toBeGreaterThan(0);
    },
    TIME_MS,
  );
});

describe("the simulation", () => {
  it("comes out the same for the same seed", async () => {
    const [once, again] = [await simulate(200), await simulate(200)];
    expect(once.asks).toEqual(again.asks);
  });
});

/** The machine with its effects changed. */
function broken(change: (effect: AskEffect) => readonly AskEffect[]): StepFunction {
  return (state, event) => {
    const step = stepAsk(state, event);
    return { ...step, effects: step.effects.flatMap(change) };
  };
}

describe("the simulation sees a machine that", () => {
  const cases: readonly [name: string, step: StepFunction, violation: string][] = [
    [
      "does not say that it may have happened",
      broken((effect) =>
        effect.type === "settle" ? [{ ...effect, ending: { ...effect.ending, mayHaveHappened: false } }] : [effect],
      ),
      "hidden",
    ],
    [
      "forgets that the task was handed over",
      (state, event) =>
        stepAsk(state, event.type === "sent" ? { type: "sent", status: "not_handed", kind: "unavailable" } : event),
      "hidden",
    ],
    [
      "takes a device that started for one that finished",
      (state, event) =>
        stepAsk(
          state,
          event.type === "accepted"
            ? { type: "reply", reply: { type: "reply", id: "", outcome: "done" }, fits: true }
            : event,
        ),
      "false_done",
    ],
    [
      "believes that a task is lost when its room does not know",
      (state, event) =>
        stepAsk(state, event.type === "left" || event.type === "room_closed" ? { ...event, delivered: "no" } : event),
      "hidden",
    ],
    [
      "sends before it is stored that it will",
      (state, event) => {
        const step = stepAsk(state, event);
        if (step.state.phase !== "offering" || state.phase === "offering") return step;
        const sent = stepAsk(step.state, { type: "offer_stored" });
        return { state: sent.state, effects: [...step.effects, ...sent.effects] };
      },
      "hidden",
    ],
    [
      "always says that it may have happened",
      broken((effect) =>
        effect.type === "settle" && effect.ending.outcome !== "done"
          ? [{ ...effect, ending: { ...effect.ending, mayHaveHappened: true } }]
          : [effect],
      ),
      "inflated",
    ],
    ["leaves rooms open", broken((effect) => (effect.type === "close_room" ? [] : [effect])), "room_not_closed"],
    [
      "makes up that a person has to approve",
      broken((effect) =>
        effect.type === "settle" && effect.ending.reason === "no_answer"
          ? [{ ...effect, ending: { ...effect.ending, outcome: "sent_for_approval", reason: undefined } }]
          : [effect],
      ),
      "made_up",
    ],
    [
      "does not end when the device is silent",
      (state, event) =>
        event.type === "deadline" && event.which === "reply" ? { state, effects: [] } : stepAsk(state, event),
      "no_outcome",
    ],
  ];

  it.each(cases)(
    "%s",
    async (_name, step, violation) => {
      expect(countOf(await simulate(ENOUGH_ASKS, step, KNOWN_SEED), violation)).toBeGreaterThan(0);
    },
    TIME_MS,
  );
});
