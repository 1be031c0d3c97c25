/**
 * Joins what `leafmesh run` loads into one file. Splitting makes a file of every group of modules that the same parts
 * share, twenty for the start alone, and Node looks each of them up, reads and links it before anything runs.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { build, type Metafile } from "esbuild";

type Outputs = Metafile["outputs"];

/**
 * Writes everything that the file `start` imports, but not `apart`, into `start` itself. The files that were joined stay
 * for who else imports them and hand on what is in `start` now, so that every module is still evaluated once. Answers
 * the outputs as they are then; names are relative to `folder`.
 */
export async function joinStart(
  outputs: Outputs,
  { start, apart, folder }: { readonly start: string; readonly apart: ReadonlySet<string>; readonly folder: string },
): Promise<Outputs> {
  const joined = [...importedBy(outputs, [start])].filter((name) => !apart.has(name));
  const parts = new Map(
    joined.map((name, index) => [basename(name), { name, prefix: index === 0 ? "" : `part${index}_` }]),
  );
  const directory = join(folder, dirname(start));
  // In the order in which they were reached, which is the order of evaluation.
  const entry = [...parts].map(([file, { name, prefix }]) => handOn(file, exportsOf(outputs, name), "", prefix));
  const result = await build({
    stdin: { contents: entry.join(""), resolveDir: directory },
    outfile: join(folder, start),
    absWorkingDir: folder,
    allowOverwrite: true,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node22.22",
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    plugins: [
      {
        name: "only-the-start",
        setup({ onResolve }) {
          onResolve({ filter: /./ }, ({ path, kind }) =>
            kind !== "dynamic-import" && parts.has(basename(path))
              ? { path: join(directory, basename(path)), sideEffects: true }
              : { path, external: kind !== "entry-point" },
          );
        },
      },
    ],
    logLevel: "warning",
    metafile: true,
  });
  const whole = result.metafile.outputs[start];
  if (!whole) throw new Error(`build: ${start} was not written`);
  const apartImports = joined.flatMap((name) => outputs[name]?.imports.filter(({ path }) => apart.has(path)) ?? []);
  const after: Outputs = { ...outputs, [start]: { ...whole, imports: apartImports } };
  for (const [file, { name, prefix }] of parts) {
    const before = outputs[name];
    if (name === start || !before) continue;
    writeFileSync(join(directory, file), handOn(basename(start), before.exports, prefix, ""));
    const bytes = readFileSync(join(directory, file)).length;
    after[name] = { ...before, bytes, imports: [{ path: start, kind: "import-statement" }] };
  }
  return after;
}

/** The names of the outputs that load with `names`, those first. */
export function importedBy(outputs: Outputs, names: Iterable<string>): ReadonlySet<string> {
  const reached = new Set<string>();
  const follow = (name: string): void => {
    const output = outputs[name];
    if (!output || reached.has(name)) return;
    reached.add(name);
    for (const { kind, path } of output.imports) if (kind === "import-statement") follow(path);
  };
  for (const name of names) follow(name);
  return reached;
}

function exportsOf(outputs: Outputs, name: string): readonly string[] {
  return outputs[name]?.exports ?? [];
}

function handOn(file: string, names: readonly string[], from: string, to: string): string {
  if (names.length === 0) return `import "./${file}";\n`;
  return `export { ${names.map((name) => `${from}${name} as ${to}${name}`).join(", ")} } from "./${file}";\n`;
}
