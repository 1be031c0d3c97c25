const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Whether JSON text nests arrays and objects deeper than `levels`: what checks or prints deep JSON recursively runs out
 * of stack. Linear, no recursion; text that is not JSON may get either answer.
 */
export function isJsonDeeperThan(text: string, levels: number): boolean {
  if (text.length <= levels) return false;
  let depth = 0;
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const character = text.charCodeAt(index);
    if (inString) {
      if (character === BACKSLASH) index++;
      else if (character === QUOTE) inString = false;
    } else if (character === QUOTE) inString = true;
    else if (character === OPEN_BRACKET || character === OPEN_BRACE) {
      depth++;
      if (depth > levels) return true;
    } else if (character === CLOSE_BRACKET || character === CLOSE_BRACE) depth--;
  }
  return false;
}
