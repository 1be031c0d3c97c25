/** "Did you mean": the closest of the names that would have been right. */
import { distance } from "fastest-levenshtein";
import { quoted } from "./diagnostic.ts";

const LONGEST_COMPARED = 64;
const MOST_COMPARED = 500;
const MOST_LISTED = 20;

/** The name that `given` is most likely a misspelling of; `undefined` when none is near. */
export function closest(given: string, names: Iterable<string>): string | undefined {
  if (given.length > LONGEST_COMPARED) return undefined;
  const typed = simplify(given);
  const tolerance = Math.max(1, Math.floor(typed.length / 3));
  let best: { name: string; edits: number } | undefined;
  let compared = 0;
  for (const name of names) {
    if (++compared > MOST_COMPARED) break;
    if (Math.abs(name.length - given.length) > tolerance + 1) continue;
    const edits = editsBetween(typed, simplify(name));
    if (edits <= tolerance && (best === undefined || edits < best.edits)) best = { name, edits };
  }
  return best?.name;
}

/** Letters in the wrong order count as one slip. */
function editsBetween(typed: string, name: string): number {
  const isReordered = typed.length === name.length && [...typed].sort().join() === [...name].sort().join();
  return isReordered ? Math.min(1, distance(typed, name)) : distance(typed, name);
}

function simplify(name: string): string {
  return name.toLowerCase().replaceAll("-", "_");
}

/** `did you mean "x"?`, or the list of what is right under `label`. */
export function suggestion(given: string, names: readonly string[], label: string): string {
  const near = closest(given, names);
  return near === undefined ? `${label}: ${listNames(names)}` : `did you mean ${quoted(near)}?`;
}

/** `a, b, c`, cut where it would no longer be read. */
export function listNames(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const shown = names.slice(0, MOST_LISTED).join(", ");
  return names.length > MOST_LISTED ? `${shown} and ${names.length - MOST_LISTED} more` : shown;
}
