/**
 * Measurements beside the peers.
 *
 *   npm run bench                       what there is
 *   npm run bench -- turns              one of them; its own options follow, --help lists them
 */
import { readdirSync } from "node:fs";

const [name, ...args] = process.argv.slice(2);
const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(".ts") && file !== "run.ts" && !file.endsWith(".test.ts"))
  .map((file) => file.slice(0, -".ts".length));

if (name === undefined || !names.includes(name)) {
  console.error(`usage: npm run bench -- <name> [options]\nnames: ${names.join(", ")}`);
  process.exit(name === undefined ? 0 : 2);
}
const { run }: { run(args: readonly string[]): Promise<void> } = await import(`./${name}.ts`);
await run(args);
