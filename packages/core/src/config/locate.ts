/**
 * From the YAML document to the tree of located values: resolves aliases and merge keys, replaces references, refuses
 * duplicate and dangerous keys. An alias shares the tree of its anchor, so a file that unfolds to billions of values is
 * found by adding up sizes and costs nothing.
 */
import { type Alias, isAlias, isMap, isScalar, isSeq, type Node, type Pair, type Scalar, type YAMLMap } from "yaml";
import type { PathSegment, Range } from "./diagnostic.ts";
import { formatPath, quoted } from "./diagnostic.ts";
import type { Located, LocatedEntry, LocatedMap, LocatedScalar } from "./located.ts";
import type { YamlDocument } from "./parse-yaml.ts";
import type { Problems } from "./problems.ts";
import type { ReferenceResolver } from "./resolve-references.ts";
import { hasReference } from "./template.ts";

export interface LocateOptions {
  readonly problems: Problems;
  readonly references: ReferenceResolver;
  /** The text as it was written, and whether unquoted references were replaced in what was parsed. */
  readonly text: string;
  readonly isRepaired: boolean;
  /** Values that the document may unfold to. */
  readonly maxValues: number;
}

export interface LocatedDocument {
  readonly root: Located;
  /** What stands under keys that are not allowed: it is not in the tree, and may be secret. */
  readonly dropped: readonly Range[];
}

type Path = readonly PathSegment[];

const MERGE_KEY = "<<";
/** Others have been refused, and what they say of the value is not known. */
const CORE_TAGS = new Set(["str", "int", "float", "bool", "null"].map((name) => `tag:yaml.org,2002:${name}`));
const FORBIDDEN_KEYS = new Set(["__proto__", "constructor", "prototype"]);

export function locate(document: YamlDocument, options: LocateOptions): LocatedDocument {
  const { problems, references } = options;
  const anchors = new Map<string, Located>();
  const openAnchors = new Set<string>();
  const dropped: Range[] = [];
  let mergedKeys = 0;

  function visit(node: Node | null, path: Path, fallbackRange: Range, inFlow: boolean): Located {
    if (node && isAlias(node)) return followAlias(node, path);
    const anchor = node && "anchor" in node ? node.anchor : undefined;
    if (anchor) openAnchors.add(anchor);
    const located = build(node, path, fallbackRange, inFlow);
    if (anchor) {
      openAnchors.delete(anchor);
      anchors.set(anchor, located);
    }
    return located;
  }

  function build(node: Node | null, path: Path, fallbackRange: Range, inFlow: boolean): Located {
    const range = rangeOf(node, fallbackRange);
    if (isMap(node)) return visitMap(node, path, range, inFlow || node.flow === true);
    if (isSeq(node)) {
      const items = node.items
        .map((item, index) => visit(asNode(item), [...path, index], range, inFlow || node.flow === true))
        .filter((item) => item.kind !== "scalar" || !item.leftOut);
      return checkSize({ kind: "list", range, size: sizeOf(items), items }, path);
    }
    return isScalar(node) ? visitScalar(node, path, range, inFlow) : scalar(range, null);
  }

  function followAlias(alias: Alias, path: Path): Located {
    const range = rangeOf(alias, [0, 1]);
    const target = anchors.get(alias.source);
    if (target && !openAnchors.has(alias.source)) return target;
    const message = openAnchors.has(alias.source)
      ? `the alias *${printableAlias(alias)} stands inside the value that it names`
      : `there is no anchor &${printableAlias(alias)} above this alias`;
    problems.error({ code: "bad_alias", range, path: formatPath(path), message });
    return unknown(range);
  }

  function visitScalar(node: Scalar, path: Path, range: Range, inFlow: boolean): LocatedScalar {
    const { value } = node;
    if (options.isRepaired && wasRepaired(node, options.text.slice(...range))) return unknown(range);
    if (node.tag !== undefined && !CORE_TAGS.has(node.tag)) return unknown(range);
    if (typeof value === "string" && hasReference(value)) {
      // In a flow collection a reference has to be quoted, so there the quotes say nothing about its type.
      const mayBeTyped = (node.type === "PLAIN" || inFlow) && !node.tag;
      return references.resolve(value, { path: formatPath(path), range, mayBeTyped });
    }
    const known = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
    return scalar(range, known ? value : null);
  }

  function visitMap(node: YAMLMap, path: Path, range: Range, inFlow: boolean): LocatedMap {
    const entries = new Map<string, LocatedEntry>();
    const repeated: LocatedEntry[] = [];
    const merges: { pair: Pair; keyRange: Range }[] = [];
    for (const pair of node.items) {
      const keyRange = rangeOf(asNode(pair.key), range);
      const key = readKey(pair, keyRange, path);
      if (key === undefined) {
        drop(pair);
        continue;
      }
      if (key === MERGE_KEY && isScalar(pair.key) && pair.key.type === "PLAIN") {
        merges.push({ pair, keyRange });
        continue;
      }
      const value = visit(asNode(pair.value), [...path, key], afterKey(keyRange), inFlow);
      const entry = { key, keyRange, value };
      if (!entries.has(key)) {
        entries.set(key, entry);
        continue;
      }
      reportDuplicate(key, keyRange, path);
      repeated.push(entry);
    }
    for (const { pair, keyRange } of merges.slice(1)) {
      reportDuplicate(MERGE_KEY, keyRange, path, "merge several with <<: [*one, *other]");
      drop(pair);
    }
    const [merge] = merges;
    if (merge) mergeInto(entries, merge.pair, merge.keyRange, path);
    const size = sizeOf([...entries.values()].map((entry) => entry.value));
    return checkSize({ kind: "map", range, size, entries, repeated }, path);
  }

  /** Keys of the mapping itself win over merged ones, and earlier merged ones over later. */
  function mergeInto(entries: Map<string, LocatedEntry>, pair: Pair, keyRange: Range, path: Path): void {
    const merged = visit(asNode(pair.value), [...path, MERGE_KEY], afterKey(keyRange), false);
    for (const part of merged.kind === "list" ? merged.items : [merged]) {
      if (part.kind !== "map") {
        if (part.kind === "scalar" && part.origin === "unknown") continue;
        const message = "<< takes a mapping, an alias of one, or a list of these";
        problems.error({ code: "wrong_type", range: part.range, path: formatPath([...path, MERGE_KEY]), message });
        continue;
      }
      mergedKeys += part.entries.size;
      if (mergedKeys > options.maxValues) {
        refuseSize(keyRange, path);
        return;
      }
      for (const entry of part.entries.values()) if (!entries.has(entry.key)) entries.set(entry.key, entry);
    }
  }

  function readKey(pair: Pair, range: Range, path: Path): string | undefined {
    const refuse = (message: string, hint?: string): undefined => {
      problems.error({ code: "bad_key", range, path: formatPath(path), message, hint });
      return undefined;
    };
    const { key } = pair;
    if (!isScalar(key)) return refuse("a key must be a text", "write a name before the colon");
    const name = typeof key.value === "string" ? key.value : (key.source ?? "");
    if (name === "") return refuse("a key is missing before the colon");
    if (FORBIDDEN_KEYS.has(name)) return refuse(`the key ${quoted(name)} is not allowed`, "choose another name");
    if (hasReference(name)) return refuse(`a \${...} is replaced in values only, not in keys`, "write the key out");
    return name;
  }

  function reportDuplicate(key: string, range: Range, path: Path, hint = "remove one of the two"): void {
    problems.error({
      code: "duplicate_key",
      range,
      path: formatPath([...path, key]),
      message: "this key stands twice in the same mapping",
      hint,
    });
  }

  function drop(pair: Pair): void {
    for (const part of [isScalar(pair.key) ? null : asNode(pair.key), asNode(pair.value)]) {
      if (part?.range) dropped.push([part.range[0], part.range[1]]);
    }
  }

  function checkSize<Value extends Located>(located: Value, path: Path): Value {
    if (located.size > options.maxValues) refuseSize(located.range, path);
    return located;
  }

  function refuseSize(range: Range, path: Path): void {
    if (problems.hasErrors("file_too_complex")) return;
    problems.error({
      code: "file_too_complex",
      range,
      path: formatPath(path),
      message: `with its aliases unfolded the file holds more than ${options.maxValues} values`,
      hint: "use fewer aliases of aliases",
    });
  }

  return { root: visit(document.contents, [], [0, 1], false), dropped };
}

/** Whether the file holds a reference where the parser was shown something else; see `unquoted-references.ts`. */
function wasRepaired(node: Scalar, written: string): boolean {
  return hasReference(written) && !hasReference(node.source ?? "");
}

function scalar(range: Range, value: LocatedScalar["value"]): LocatedScalar {
  return { kind: "scalar", range, size: 1, value, origin: "file", typed: undefined, leftOut: false };
}

function unknown(range: Range): LocatedScalar {
  return { ...scalar(range, null), origin: "unknown" };
}

function sizeOf(values: readonly Located[]): number {
  return values.reduce((sum, value) => sum + value.size, 1);
}

function rangeOf(node: Node | null, fallback: Range): Range {
  const range = node?.range;
  return range ? [range[0], Math.max(range[1], range[0] + 1)] : fallback;
}

/** Where an empty value would stand. */
function afterKey(keyRange: Range): Range {
  return [keyRange[1], keyRange[1] + 1];
}

function asNode(value: unknown): Node | null {
  return isAlias(value) || isScalar(value) || isMap(value) || isSeq(value) ? value : null;
}

function printableAlias(alias: Alias): string {
  return quoted(alias.source).slice(1, -1);
}
