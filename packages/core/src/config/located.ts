/** The document as a tree of values with their places: what the checks walk and what every finding points into. */
import type { PathSegment, Range } from "./diagnostic.ts";

interface LocatedBase {
  readonly range: Range;
  /** Values in it, aliases counted as often as they are used. */
  readonly size: number;
}

export interface LocatedScalar extends LocatedBase {
  readonly kind: "scalar";
  readonly value: string | number | boolean | null;
  /**
   * `reference`: the value came from a `${...}` and must not be repeated in a message. `none`: it stands in the file.
   * `unknown`: a finding has been made about it already and nothing more can be said.
   */
  readonly origin: "file" | "reference" | "unknown";
  /** For a plain reference: what its text would be as a number or truth value. */
  readonly typed: number | boolean | undefined;
  /** Only a reference, and it came out empty: counts as left out. */
  readonly leftOut: boolean;
}

export interface LocatedMap extends LocatedBase {
  readonly kind: "map";
  readonly entries: ReadonlyMap<string, LocatedEntry>;
  /** Repeated keys. They count for nothing; that they may hold secrets is why they are kept. */
  readonly repeated: readonly LocatedEntry[];
}

export interface LocatedEntry {
  readonly key: string;
  readonly keyRange: Range;
  readonly value: Located;
}

export interface LocatedList extends LocatedBase {
  readonly kind: "list";
  readonly items: readonly Located[];
}

export type Located = LocatedScalar | LocatedMap | LocatedList;

export function childOf(parent: Located | undefined, segment: PathSegment): Located | undefined {
  if (parent?.kind === "map") return parent.entries.get(String(segment))?.value;
  if (parent?.kind === "list" && typeof segment === "number") return parent.items[segment];
  return undefined;
}

export function locatedAt(root: Located, path: readonly PathSegment[]): Located | undefined {
  return path.reduce<Located | undefined>(childOf, root);
}

/**
 * The place to point at for a path. A text, number or truth value is its own place; a mapping or list has the key it
 * stands under, because underlining all of it would say nothing; what is missing has the place of what it is missing from.
 */
export function rangeAt(root: Located, path: readonly PathSegment[]): Range {
  let node = root;
  let range = beginning(root);
  for (const segment of path) {
    const child = childOf(node, segment);
    if (!child) return range;
    range = child.kind === "scalar" ? child.range : (keyRangeOf(node, segment) ?? beginning(child));
    node = child;
  }
  return range;
}

function beginning(located: Located): Range {
  return [located.range[0], located.range[0] + 1];
}

/** The place of a key within its mapping. */
export function keyRangeOf(parent: Located | undefined, segment: PathSegment): Range | undefined {
  return parent?.kind === "map" ? parent.entries.get(String(segment))?.keyRange : undefined;
}

/** The text of a scalar that is a text; nothing when a finding about it was made already. */
export function textOf(located: Located | undefined): string | undefined {
  const isText = located?.kind === "scalar" && typeof located.value === "string";
  return isText && located.origin !== "unknown" && !located.leftOut ? located.value : undefined;
}

export function entriesOf(located: Located | undefined): readonly LocatedEntry[] {
  return located?.kind === "map" ? [...located.entries.values()] : [];
}

export function itemsOf(located: Located | undefined): readonly Located[] {
  return located?.kind === "list" ? located.items : [];
}

/**
 * Plain values for a schema to judge. References in `asTyped` are given as the number or truth value that they spell.
 * Mappings have no prototype, so a key can never reach one.
 */
export function toPlain(located: Located, asTyped: ReadonlySet<Located>): unknown {
  if (located.kind === "scalar") {
    return located.typed !== undefined && asTyped.has(located) ? located.typed : located.value;
  }
  if (located.kind === "list") {
    return located.items.map((item) => toPlain(item, asTyped));
  }
  const plain: Record<string, unknown> = Object.create(null);
  for (const { key, value } of located.entries.values()) if (!isLeftOut(value)) plain[key] = toPlain(value, asTyped);
  return plain;
}

/** Whether the operator wrote a value, whatever it may be. */
export function isGiven(located: Located | undefined): boolean {
  return located !== undefined && !isLeftOut(located);
}

export function isLeftOut(located: Located): boolean {
  return located.kind === "scalar" && located.leftOut;
}
