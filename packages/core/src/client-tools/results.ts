/** What a client says its calls came to: compared, matched with what is waited for, and put into words for the model. Pure. */
import { createHash } from "node:crypto";
import { type FieldError, type ToolResultInput, textOfContent } from "@leafmesh/protocol";
import { cutText } from "../runs/run-writes.ts";
import type { CallRecord } from "../storage/contract.ts";

/** A result as its call record keeps it. */
export interface ClientResult {
  readonly text: string;
  readonly isError: boolean;
}

export function toClientResult({ content, is_error }: ToolResultInput): ClientResult {
  return { text: textOfContent(content), isError: is_error };
}

export function isClientResult(stored: unknown): stored is ClientResult {
  return (
    typeof stored === "object" &&
    stored !== null &&
    "text" in stored &&
    typeof stored.text === "string" &&
    "isError" in stored &&
    typeof stored.isError === "boolean"
  );
}

/**
 * Equal for answers that say the same: the order of the results does not matter, and a text is the same as one text
 * block with it.
 */
export function resultsDigest(results: readonly ToolResultInput[]): string {
  const entries = results.map(({ tool_call_id, content, is_error }) =>
    JSON.stringify([tool_call_id, typeof content === "string" ? [content] : content.map(({ text }) => text), is_error]),
  );
  return createHash("sha256").update(JSON.stringify(entries.sort())).digest("hex");
}

/** What keeps the results from naming exactly the calls that are waited for; empty when nothing does. */
export function findMismatches(
  results: readonly ToolResultInput[],
  pending: readonly Pick<CallRecord, "providerCallId">[],
): FieldError[] {
  const expected = new Set(pending.map(({ providerCallId }) => providerCallId));
  const seen = new Set<string>();
  const errors: FieldError[] = [];
  for (const [index, { tool_call_id: value }] of results.entries()) {
    const field = `value.tool_results[${index}].tool_call_id`;
    if (seen.has(value)) errors.push({ field, code: "duplicate_tool_result", value });
    else if (!expected.has(value)) errors.push({ field, code: "unexpected_tool_result", value });
    seen.add(value);
  }
  for (const value of expected) {
    if (!seen.has(value)) errors.push({ field: "value.tool_results", code: "missing_tool_result", value });
  }
  return errors;
}

/** What the model reads: a failed call says so, unless its text does already. */
export function textForModel({ text, isError }: ClientResult, maxCharacters: number): string {
  const shown = cutText(text, maxCharacters);
  return isError && !/^\s*error/i.test(text) ? `error: ${shown}` : shown;
}
