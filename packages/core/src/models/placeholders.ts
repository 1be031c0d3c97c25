/** `{{tool.outcome}}` in a script's reply: the smallest template that can quote a tool result. */
import { isRecord } from "./json.ts";

const PLACEHOLDER = /\{\{(.*?)\}\}/gs;
const KNOWN = /^(?:user|tool(?:\.[\w-]+)*)$/;

/** What can be quoted. */
export interface Quotable {
  readonly user: string;
  /** The tool result that is being answered. */
  readonly tool?: { readonly text: string; readonly value: unknown } | undefined;
}

/** The names between the braces, trimmed, in order. */
export function findPlaceholders(template: string): readonly string[] {
  return [...template.matchAll(PLACEHOLDER)].map((match) => (match[1] ?? "").trim());
}

export function isKnownPlaceholder(name: string): boolean {
  return KNOWN.test(name);
}

/** The text with everything quoted, or the placeholder that cannot be. */
export function fillPlaceholders(
  template: string,
  quotable: Quotable,
): { readonly text: string } | { readonly missing: string } {
  let missing: string | undefined;
  const text = template.replaceAll(PLACEHOLDER, (whole, inside: string) => {
    const quoted = toText(lookUp(inside.trim(), quotable));
    if (quoted === undefined) missing ??= whole;
    return quoted ?? "";
  });
  return missing === undefined ? { text } : { missing };
}

function lookUp(name: string, { user, tool }: Quotable): unknown {
  if (name === "user") return user;
  if (name === "tool") return tool?.text;
  let value: unknown = tool?.value;
  for (const key of name.split(".").slice(1)) {
    if (Array.isArray(value)) value = value[Number(key)];
    else if (isRecord(value) && Object.hasOwn(value, key)) value = value[key];
    else return undefined;
  }
  return value;
}

/** `undefined` for what is not there, and for what is nested too deeply to be written. */
function toText(value: unknown): string | undefined {
  if (value === undefined || typeof value === "string") return value;
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}
