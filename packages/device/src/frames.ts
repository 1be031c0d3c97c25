/** JSON that came over a socket; `undefined` when it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Frame types that start with `x-` are somebody's extension and ignored. */
export function isExtension(value: unknown): boolean {
  return typeof value === "object" && value !== null && "type" in value && String(value.type).startsWith("x-");
}
