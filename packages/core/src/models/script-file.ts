/** Reads a script from a YAML or JSON file; what is wrong with it is told with its place. */
import { basename } from "node:path";
import { judge } from "../config/judge.ts";
import { locate } from "../config/locate.ts";
import { itemsOf } from "../config/located.ts";
import { maxTokensOf, parseYaml } from "../config/parse-yaml.ts";
import { createProblems, type Problems } from "../config/problems.ts";
import { renderDiagnostics } from "../config/render.ts";
import type { ReferenceResolver } from "../config/resolve-references.ts";
import { DEFAULT_MAX_BYTES, decodeSource, type SourceText } from "../config/source-text.ts";
import { toDiagnostics } from "../config/to-diagnostics.ts";
import { ModelError } from "./contract.ts";
import { type Script, scriptSchema } from "./script-schema.ts";

export interface LoadedScript {
  readonly script: Script;
  /** File and line of each entry. */
  readonly places: readonly string[];
}

/** In a script `$` is a character like any other. */
const noReferences: ReferenceResolver = {
  resolve: (template, { range }) => ({
    kind: "scalar",
    range,
    size: 1,
    value: template,
    origin: "file",
    typed: undefined,
    leftOut: false,
  }),
  files: new Set(),
};

/**
 * `path` is what errors call the script. Throws a {@link ModelError} of the kind `unscripted` that lists everything that
 * is wrong, line by line.
 */
export function parseScript(source: string | Uint8Array, path: string): LoadedScript {
  const decoded = decodeSource(source, DEFAULT_MAX_BYTES);
  const problems = createProblems();
  if (!decoded.ok) problems.error(decoded.problem);
  const read = decoded.ok ? readScript(decoded.source, basename(path), problems) : undefined;
  if (read && !problems.hasErrors()) return read;
  const found = toDiagnostics(problems.list(), {
    file: path,
    source: decoded.source,
    lines: decoded.ok ? "known" : "none",
    hidden: [],
    secretValues: new Set(),
  });
  throw new ModelError("unscripted", renderDiagnostics(found).trimEnd());
}

function readScript(source: SourceText, name: string, problems: Problems): LoadedScript | undefined {
  const parsed = parseYaml(source, DEFAULT_MAX_BYTES, problems);
  if (!parsed.document || !parsed.trustworthy) return undefined;
  const { root } = locate(parsed.document, {
    problems,
    references: noReferences,
    text: source.text,
    isRepaired: parsed.isRepaired,
    maxValues: maxTokensOf(DEFAULT_MAX_BYTES),
  });
  // Unfolding its aliases is what must not be done with such a file.
  if (problems.hasErrors("file_too_complex")) return undefined;
  const script = judge(scriptSchema, { root, path: [], problems });
  return script && { script, places: itemsOf(root).map(({ range }) => `${name}:${source.placeOf(range[0]).line}`) };
}
