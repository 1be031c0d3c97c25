import { type AskProcessDependencies, type Simulation, simulateAsks } from "@leafmesh/testkit/ask";
import { describe, expect, it } from "vitest";
import { stepAsk } from "./ask-machine.ts";
import type { AskServices } from "./ask-services.ts";
import type { ConnectionPool } from "./connections.ts";
import { assembleDeviceAction } from "./tool.ts";

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

function simulate(seed: number, asks: number, step: AskServices["step"] = stepAsk): Promise<Simulation> {
  return simulateAsks({
    seed,
    asks,
    startProcess(dependencies) {
      const pool = poolOf(dependencies);
      return assembleDeviceAction({ ...dependencies, connectionsOf: () => pool }, step);
    },
  });
}

describe("the truth", () => {
  it("holds", async () => {
    const simulation = await simulate(1, 300);
    console.log(simulation.faults, simulation.left);
    const c = new Map<string, number>();
    for (const { ask, violation } of simulation.violations) {
      c.set(violation, (c.get(violation) ?? 0) + 1);
      if ((c.get(violation) ?? 0) < 4) console.log(violation, JSON.stringify(ask));
    }
    console.log(c, simulation.asks.length);
    expect(simulation.violations.length).toBe(0);
  }, 60_000);
});
