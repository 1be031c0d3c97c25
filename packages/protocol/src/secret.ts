import * as z from "zod";

const PRINTED = "[redacted]";

/**
 * A value that must not be printed and therefore cannot be: `String()`, template literals, `JSON.stringify`
 * and `util.inspect` all give `[redacted]`. The only way to the value is {@link Secret.reveal}, called where it
 * is put on the wire and nowhere else. Push tokens and every field marked secret are of this type.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself. Call it at the last moment and do not keep the result. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return PRINTED;
  }

  toJSON(): string {
    return PRINTED;
  }

  [Symbol.toPrimitive](): string {
    return PRINTED;
  }

  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return PRINTED;
  }
}

/** Metadata that an option schema carries for its fields; see {@link secretString} and `z.string().meta()`. */
export interface FieldMeta {
  /** One sentence for the operator: what the field is and where on the vendor's side it is found. */
  description?: string;
  /** Redacted in output, sealed at rest, masked in forms. */
  secret?: boolean;
  /** Rendered with several lines in a form (PEM, JSON). */
  multiline?: boolean;
}

/** A required string field whose value is a {@link Secret}. `description` is what the operator reads. */
export function secretString(description: string, more: Omit<FieldMeta, "description" | "secret"> = {}) {
  return z
    .string()
    .min(1, "must not be empty")
    .meta({ description, secret: true, ...more })
    .transform((value) => new Secret(value))
    .meta({ description, secret: true, ...more });
}
