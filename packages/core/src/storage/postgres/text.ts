/**
 * PostgreSQL's `text` cannot hold the character NUL, which a message may contain. It is written as two characters that
 * begin with SUBSTITUTE, and SUBSTITUTE itself as two of it. https://www.postgresql.org/docs/15/datatype-character.html
 */
const NUL = "\0";
const SUBSTITUTE = "\x1a";
const NUL_WRITTEN = `${SUBSTITUTE}0`;
const SUBSTITUTE_WRITTEN = SUBSTITUTE + SUBSTITUTE;
const WRITTEN = new RegExp(`${SUBSTITUTE}[0${SUBSTITUTE}]`, "g");

export function toDatabaseText(text: string): string {
  if (!text.includes(SUBSTITUTE) && !text.includes(NUL)) return text;
  return text.replaceAll(SUBSTITUTE, SUBSTITUTE_WRITTEN).replaceAll(NUL, NUL_WRITTEN);
}

export function fromDatabaseText(text: string): string {
  if (!text.includes(SUBSTITUTE)) return text;
  return text.replace(WRITTEN, (written) => (written === NUL_WRITTEN ? NUL : SUBSTITUTE));
}
