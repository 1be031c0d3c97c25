/** Values of options. Each function takes the text and answers the value, or throws an {@link OptionValueError}. */

/** The message is a sentence that says what the value must be. */
export class OptionValueError extends Error {
  override readonly name = "OptionValueError";
}

export function wholeNumber(minimum: number, maximum: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < minimum || value > maximum) {
      throw new OptionValueError(`It must be a whole number from ${minimum} to ${maximum}.`);
    }
    return value;
  };
}

export const port = wholeNumber(0, 65_535);

export function webAddress(text: string): string {
  if (!/^https?:\/\/[^\s/?#@]+/.test(text) || !URL.canParse(text)) {
    throw new OptionValueError("It must be an address such as https://mesh-2.example.com.");
  }
  return text.replace(/\/+$/, "");
}

export function seconds(minimum: number, maximum: number) {
  return (text: string): number => {
    const value = Number(text);
    if (!(value >= minimum && value <= maximum)) {
      throw new OptionValueError(`It must be a number of seconds from ${minimum} to ${maximum}.`);
    }
    return value;
  };
}

export const LARGEST_GRACE_S = 3600;
export const DEFAULT_GRACE_S = 10;
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export const LOG_FORMATS = ["pretty", "json"] as const;
export const LARGEST_MESH_FILE_BYTES = 10 * 1024 * 1024;
