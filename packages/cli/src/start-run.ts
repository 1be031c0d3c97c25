/**
 * `leafmesh run` without the library that reads command lines, which takes as long to load as a tenth of the start. Only
 * arguments that are plainly right are taken here; a mistake, or a wish for help, is left to command-line.ts.
 */
import { parseArgs } from "node:util";
import { type RunOptions, run } from "./commands/run.ts";
import type { ExitCode } from "./context.ts";
import {
  DEFAULT_GRACE_S,
  LARGEST_GRACE_S,
  LARGEST_MESH_FILE_BYTES,
  LOG_FORMATS,
  LOG_LEVELS,
  OptionValueError,
  port,
  webAddress,
  wholeNumber,
} from "./option-values.ts";
import { createContext, type ProcessLike, report } from "./process-context.ts";

/** Runs a mesh and answers the exit code; `undefined`, with nothing done, when command-line.ts has to read `args`. */
export async function startRun(args: readonly string[], processLike: ProcessLike): Promise<ExitCode | undefined> {
  const options = readRunArguments(args);
  if (!options) return undefined;
  const context = createContext(processLike);
  try {
    return await run(options, context);
  } catch (error) {
    return report(error, context);
  }
}

/** What `args`, the words after `run`, ask for; `undefined` when any of them is not plainly right. */
export function readRunArguments(args: readonly string[]): RunOptions | undefined {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        host: { type: "string" },
        port: { type: "string" },
        "advertise-url": { type: "string" },
        "no-watch": { type: "boolean" },
        grace: { type: "string" },
        "log-level": { type: "string" },
        "log-format": { type: "string" },
        "max-config-size": { type: "string" },
        json: { type: "boolean" },
      },
    });
    if (positionals.length > 1) return undefined;
    return {
      file: positionals[0] ?? "mesh.yaml",
      host: values.host,
      port: given(values.port, port),
      advertiseUrl: given(values["advertise-url"], webAddress),
      watch: !values["no-watch"],
      grace: given(values.grace, wholeNumber(0, LARGEST_GRACE_S)) ?? DEFAULT_GRACE_S,
      logLevel: given(values["log-level"], oneOf(LOG_LEVELS)),
      logFormat: given(values["log-format"], oneOf(LOG_FORMATS)),
      maxConfigSize: given(values["max-config-size"], wholeNumber(1, LARGEST_MESH_FILE_BYTES)),
      json: values.json,
    };
  } catch (error) {
    if (error instanceof OptionValueError || isOfParseArgs(error)) return undefined;
    throw error;
  }
}

function given<Value>(text: string | undefined, read: (text: string) => Value): Value | undefined {
  return text === undefined ? undefined : read(text);
}

function oneOf<Value extends string>(choices: readonly Value[]): (text: string) => Value {
  return (text) => {
    const choice = choices.find((each) => each === text);
    if (choice === undefined) throw new OptionValueError(`It must be one of ${choices.join(", ")}.`);
    return choice;
  };
}

function isOfParseArgs(error: unknown): boolean {
  return error instanceof TypeError && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
}
