/** Gives `${...}` its value from the environment and from files. What it gives is never repeated in a message. */
import { resolve as resolvePath } from "node:path";
import type { Range } from "./diagnostic.ts";
import { quoted } from "./diagnostic.ts";
import type { LocatedScalar } from "./located.ts";
import type { Problems } from "./problems.ts";
import { parseTemplate, type ReferencePiece } from "./template.ts";

/** A text file, or why it could not be had. */
export type FileText =
  | { readonly ok: true; readonly text: string }
  | {
      readonly ok: false;
      readonly why: "missing" | "not_a_file" | "not_permitted" | "too_large" | "not_text" | "unreadable";
    };

/** Reads a file of at most `maxBytes` bytes. Never throws for what a file system may answer. */
export type ReadFile = (absolutePath: string, maxBytes: number) => FileText;

export interface ReferenceSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile: ReadFile;
  /** What relative paths are relative to. */
  readonly folder: string;
  readonly problems: Problems;
  /** The text of mesh.yaml. */
  readonly text: string;
}

export interface ReferenceResolver {
  /** The value of a scalar that holds at least one `${`. */
  resolve(
    template: string,
    place: { readonly path: string; readonly range: Range; readonly mayBeTyped: boolean },
  ): LocatedScalar;
  /** Absolute paths of the files that were asked for, found or not. */
  readonly files: ReadonlySet<string>;
}

/** Of one `${file:...}`. */
const MAX_FILE_BYTES = 1024 * 1024;
/** Characters of all replaced texts of a mesh together. */
const MAX_TOTAL_CHARACTERS = 16 * 1024 * 1024;

const reasons: Readonly<Record<Extract<FileText, { ok: false }>["why"], string>> = {
  missing: "does not exist",
  not_a_file: "is not a regular file",
  not_permitted: "may not be read by this process",
  too_large: `is larger than ${MAX_FILE_BYTES / 1024} KiB`,
  not_text: "is not UTF-8 text",
  unreadable: "could not be read",
};

export function createReferenceResolver(sources: ReferenceSources): ReferenceResolver {
  const { env, readFile, folder, problems } = sources;
  const filesRead = new Map<string, FileText>();
  let totalCharacters = 0;

  /** The text that the reference stands for; `undefined` after a finding. */
  function lookUp(piece: ReferencePiece, report: Report): string | undefined {
    if (piece.type === "bad") return report("bad_reference", piece.message, piece.hint);
    if (piece.type === "file") return readReferenced(piece.path, report);
    const value = Object.hasOwn(env, piece.name) ? env[piece.name] : undefined;
    if (value !== undefined && value !== "") return value;
    if (piece.fallback !== undefined) return piece.fallback;
    if (value !== undefined) return value;
    const hint = `set ${piece.name}, or give a default: \${${piece.name}:-...}`;
    return report("missing_variable", `the environment variable ${piece.name} is not set`, hint);
  }

  function readReferenced(path: string, report: Report): string | undefined {
    const absolutePath = resolvePath(folder, path);
    const file = filesRead.get(absolutePath) ?? readFile(absolutePath, MAX_FILE_BYTES);
    filesRead.set(absolutePath, file);
    if (file.ok) return file.text.replace(/(\r?\n)+$/, "");
    return report(
      "file_unreadable",
      `the file ${quoted(path)} ${reasons[file.why]}`,
      `looked for ${quoted(absolutePath)}`,
    );
  }

  return {
    resolve(template, { path, range, mayBeTyped }) {
      const placeOf = createPlaces(template, sources.text.slice(...range), range);
      const pieces = parseTemplate(template);
      let value = "";
      let isKnown = true;
      for (const piece of pieces) {
        if (problems.isFull()) {
          isKnown = false;
          break;
        }
        const found = piece.type === "text" ? piece.text : lookUp(piece, reporter(piece, placeOf, path));
        if (found === undefined) isKnown = false;
        totalCharacters += found?.length ?? 0;
        if (totalCharacters <= MAX_TOTAL_CHARACTERS) value += found ?? "";
      }
      if (totalCharacters > MAX_TOTAL_CHARACTERS) {
        const message = `the replaced texts of this file have more than ${MAX_TOTAL_CHARACTERS} characters together`;
        problems.error({ code: "file_too_complex", range, path, message });
        isKnown = false;
      }
      const isReference = pieces.some((piece) => piece.type !== "text");
      return {
        kind: "scalar",
        range,
        size: 1,
        value,
        origin: isKnown ? (isReference ? "reference" : "file") : "unknown",
        typed: mayBeTyped && isReference ? spelledValue(value) : undefined,
        leftOut: isKnown && mayBeTyped && isReference && value === "",
      };
    },
    get files() {
      return new Set(filesRead.keys());
    },
  };

  function reporter(piece: ReferencePiece, placeOf: (at: number) => Range, path: string): Report {
    return (code, message, hint) => {
      if (!problems.isFull()) problems.error({ code, range: placeOf(piece.at), path, message, hint });
      return undefined;
    };
  }
}

type Report = (
  code: "bad_reference" | "missing_variable" | "file_unreadable",
  message: string,
  hint: string,
) => undefined;

/** The n-th `${` of the value is the n-th `${` of what is written, whatever quotes and folds lie between. */
function createPlaces(template: string, written: string, range: Range): (at: number) => Range {
  let places: ReadonlyMap<number, number> | undefined;
  return (at) => {
    if (!places) {
      const inText = offsetsOfReferences(written);
      places = new Map(offsetsOfReferences(template).map((offset, index) => [offset, inText[index] ?? -1]));
    }
    const start = places.get(at) ?? -1;
    if (start < 0) return range;
    const close = written.indexOf("}", start);
    return [range[0] + start, range[0] + (close < 0 ? start + 2 : close + 1)];
  };
}

function offsetsOfReferences(text: string): readonly number[] {
  return [...text.matchAll(/\$\{/g)].map(({ index }) => index);
}

/** The number or truth value that a plain text spells in YAML's core schema. */
function spelledValue(text: string): number | boolean | undefined {
  if (/^(true|True|TRUE)$/.test(text)) return true;
  if (/^(false|False|FALSE)$/.test(text)) return false;
  return /^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$|^0x[0-9a-fA-F]+$|^0o[0-7]+$/.test(text) ? Number(text) : undefined;
}
