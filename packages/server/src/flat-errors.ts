/** Refusals of the routes of runs and their tools: not wrapped, and with one entry in `details.errors` for each place. */
import type { IncomingMessage } from "node:http";
import type { FieldError, RunsError } from "@leafmesh/protocol";
import * as z from "zod";
import { readJson } from "./body.ts";
import { ApiError } from "./errors.ts";

export function flatErrorBody({ code, message, details }: ApiError): RunsError {
  return { code, message, ...(details === undefined ? {} : { details }) };
}

/** A body that is not as documented. */
export function validationFailed(errors: readonly FieldError[]): ApiError {
  const [first] = errors;
  const said = first?.message ?? first?.code ?? "not as documented";
  const where = first?.field ? `${first.field}: ${said}` : said;
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more, see details)` : "";
  // Devices are refused alike wherever they are named.
  const status = errors.some(({ field }) => /^devices?(\.|$)/.test(field)) ? 400 : 422;
  return new ApiError(status, "validation_failed", `${where}${more}`, {
    details: { errors: errors.map(({ field, code, message = "" }) => ({ field, code, message })) },
  });
}

/** `value` through `schema`, or a 422 whose fields are joined with dots from `path` on. Values are never quoted. */
export function parseFields<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  path: readonly string[] = [],
): z.output<Schema> {
  const parsed = schema.safeParse(value, { reportInput: false });
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.flatMap((issue): FieldError[] => {
    const field = (...more: readonly PropertyKey[]): string => [...path, ...issue.path, ...more].map(String).join(".");
    if (issue.code !== "unrecognized_keys") return [{ field: field(), code: issue.code, message: issue.message }];
    return issue.keys.map((key) => ({ field: field(key), code: "unknown_field", message: "unknown field" }));
  });
  throw validationFailed(errors);
}

/** The JSON body as `schema` sees it; 415, 413 and 400 as everywhere, and {@link parseFields} for what is in it. */
export async function readFields<Schema extends z.ZodType>(
  incoming: IncomingMessage,
  schema: Schema,
  maxBytes: number,
): Promise<z.output<Schema>> {
  return parseFields(schema, await readJson(incoming, z.unknown(), maxBytes));
}
