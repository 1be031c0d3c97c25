/** Which actions an agent may ask for: glob patterns over action names. */
import picomatch from "picomatch";

type Matches = (action: string) => boolean;

/** Compiled once per list: a mesh's lists live as long as the mesh. */
const compiled = new WeakMap<readonly string[], readonly Matches[]>();

/**
 * Whether `action` may be asked for. `allow` left out allows all, an empty one nothing; `deny` wins. A pattern always
 * matches the action of the same name, and `*` matches any run of characters: names are not paths.
 */
export function isAllowed(
  action: string,
  { allow, deny }: { readonly allow?: readonly string[] | undefined; readonly deny?: readonly string[] | undefined },
): boolean {
  if (deny && matchesAny(action, deny)) return false;
  return !allow || matchesAny(action, allow);
}

function matchesAny(action: string, patterns: readonly string[]): boolean {
  let matchers = compiled.get(patterns);
  if (!matchers) {
    matchers = patterns.map(compile);
    compiled.set(patterns, matchers);
  }
  return patterns.includes(action) || matchers.some((matches) => matches(action));
}

function compile(pattern: string): Matches {
  const matches = picomatch(asName(pattern), { dot: true, bash: true });
  return (action) => matches(asName(action));
}

/**
 * Keeps picomatch from reading a name as a path: no separators, no leading `./`, `.` or `!`. Control characters cannot
 * occur in an action's name.
 */
function asName(text: string): string {
  return `a${text.replaceAll("/", "\u0001").replaceAll("\\", "\u0002")}`;
}
