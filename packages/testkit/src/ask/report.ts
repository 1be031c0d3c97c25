import type { AskResult } from "@leafmesh/protocol";
import type { SimulatedAsk } from "./conversation.ts";
import type { Simulation } from "./simulation.ts";
import type { Violation } from "./truth.ts";

/** A simulation as a page of text: what went wrong, what was told beside what was true, and how often that was a lie. */
export function formatSimulation(simulation: Simulation): string {
  const { seed, asks, faults, violations, left } = simulation;
  const share = (count: number): string => `${((100 * count) / Math.max(asks.length, 1)).toFixed(1)} %`;
  const mayHave = asks.filter(({ result }) => result?.may_have_happened);
  const inVain = mayHave.filter(({ deeds }) => deeds.effects === 0);
  const recovered = asks.filter((ask) => ask.recovered);
  return [
    `${asks.length} asks, seed ${seed}`,
    "",
    "Faults",
    ...table(
      [...faults].sort(([left], [right]) => left.localeCompare(right)).map(([name, count]) => [name, `${count}`]),
    ),
    "",
    "Told to the agent, and what was true",
    ...table([["outcome", "happened", "did not"], ...matrix(asks)]),
    "",
    ...table([
      ["may have happened", share(mayHave.length)],
      ["  of them it had not", share(inVain.length)],
      ["ended after a restart", share(recovered.length)],
      ["rings and tasks a device ignored", `${asks.reduce((sum, { deeds }) => sum + deeds.ignored, 0)}`],
      ["timers and asks left over", `${left.timers} and ${left.asks}`],
      ["lies and broken rules", `${violations.length}`],
      ...countBy(violations, ({ violation }) => violation).map(([name, count]) => [`  ${name}`, `${count}`]),
    ]),
    ...firstOfEach(violations),
  ].join("\n");
}

/** One line for each thing that agents were told: how often it had happened, and how often it had not. */
function matrix(asks: readonly SimulatedAsk[]): string[][] {
  return [...Map.groupBy(asks, ({ result }) => describe(result))]
    .sort(([left], [right]) => left.localeCompare(right))
    .map(([name, told]) => {
      const happened = told.filter(({ deeds }) => deeds.effects > 0).length;
      return [name, `${happened}`, `${told.length - happened}`];
    });
}

function describe(result: AskResult | undefined): string {
  if (!result) return "(the process died before the ask was stored)";
  const reason = result.reason === undefined ? "" : ` (${result.reason})`;
  return `${result.outcome}${reason}${result.may_have_happened ? ", may have happened" : ""}`;
}

function firstOfEach(violations: Simulation["violations"]): string[] {
  const first = new Map<Violation, SimulatedAsk>();
  for (const { violation, ask } of violations) if (!first.has(violation)) first.set(violation, ask);
  return [...first].map(([violation, ask]) => `\n${violation}: ${JSON.stringify(ask)}`);
}

function countBy<Item, Key>(items: readonly Item[], keyOf: (item: Item) => Key): (readonly [Key, number])[] {
  return [...Map.groupBy(items, keyOf)].map(([key, group]) => [key, group.length] as const);
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => {
    const cells = row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
    );
    return `  ${cells.join("  ").trimEnd()}`;
  });
}
