/**
 * `leafmesh run`, with the vendors of its push services played elsewhere. The first argument is a JSON file with a list of
 * played addresses; the rest are the words after `run`. The example of docs/adding-a-notifier.md is a provider here, too.
 */
import { readFileSync } from "node:fs";
import { joinNetworks, networkOf, type PlayedAddress } from "@leafmesh/testkit/notifiers";
import { examplePush } from "../../notifiers/testing/example-push.ts";
import { run } from "../src/commands/run.ts";
import { createContext } from "../src/process-context.ts";
import { readRunArguments } from "../src/start-run.ts";

const [file = "", ...args] = process.argv.slice(2);
const played = JSON.parse(readFileSync(file, "utf8")) as readonly PlayedAddress[];
const options = readRunArguments(args);
if (!options) throw new Error(`not what follows "leafmesh run": ${args.join(" ")}`);
const network = joinNetworks(...played.map(networkOf));
const providers = { notifiers: new Map([[examplePush.provider, examplePush]]) };
process.exitCode = await run(options, { ...createContext(process), injected: { network, providers } });
