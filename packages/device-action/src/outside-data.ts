/**
 * Text and data that come from outside the mesh, made safe to show to a model: always a JSON value, never prose. A JSON
 * string cannot be closed from inside, and what a person would not see is written as an escape.
 */

/** Characters of a device's own words that are passed on. */
export const MAX_WORDS_CHARACTERS = 500;
/** JSON of a reply, in characters; what a room frame may hold. */
export const MAX_REPLY_CHARACTERS = 64 * 1024;
/** Levels of a reply's data. Deeper JSON only breaks those who walk it. */
export const MAX_REPLY_DEPTH = 64;

/**
 * Controls, formatting and bidirectional marks, private use, unassigned tags, line separators, and fillers that render
 * as nothing: whatever lets text hide or pose as something else.
 */
const INVISIBLE =
  /\p{Cc}|\p{Cf}|\p{Co}|\p{Cn}|\p{Zl}|\p{Zp}|\p{Variation_Selector}|\u034F|\u115F|\u1160|\u17B4|\u17B5|\u3164|\uFFA0/gu;

/** Compact JSON of `value` in which every invisible character is an escape. It parses back to the same value. */
export function quote(value: unknown): string {
  return (JSON.stringify(value) ?? "null").replace(INVISIBLE, escapeCharacter);
}

function escapeCharacter(character: string): string {
  let escaped = "";
  for (let unit = 0; unit < character.length; unit++) {
    escaped += `\\u${character.charCodeAt(unit).toString(16).padStart(4, "0")}`;
  }
  return escaped;
}

/** At most `limit` characters (UTF-16 units), with a mark where something was cut off. Cuts no character in two. */
export function shorten(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const cut = text.slice(0, limit - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}

/** Whether `value` nests at most `limit` levels of arrays and objects. Does not recurse. */
export function isWithinDepth(value: unknown, limit: number): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= limit; depth++) {
    const next: unknown[] = [];
    for (const item of level) {
      if (typeof item === "object" && item !== null) for (const child of Object.values(item)) next.push(child);
    }
    if (next.length === 0) return true;
    level = next;
  }
  return false;
}
