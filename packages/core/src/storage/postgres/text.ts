/**
 * PostgreSQL's `text` cannot hold the character NUL, which a message may contain. It is written as two characters that
 * begin with SUBSTITUTE, and SUBSTITUTE itself as two of it. https://www.postgresql.org/docs/15/datatype-character.html
 */
const SPECIAL = /[\0\x1a]/;
const NUL_WRITTEN = "\x1a0";
const SUBSTITUTE_WRITTEN = "\x1a\x1a";

export function toDatabaseText(text: string): string {
  if (!SPECIAL.test(text)) return text;
  return text.replace(/[\0\x1a]/g, (character) => (character === "\0" ? NUL_WRITTEN : SUBSTITUTE_WRITTEN));
}

export function fromDatabaseText(text: string): string {
  if (!text.includes("\x1a")) return text;
  return text.replace(/\x1a[0\x1a]/g, (written) => (written === NUL_WRITTEN ? "\0" : "\x1a"));
}
