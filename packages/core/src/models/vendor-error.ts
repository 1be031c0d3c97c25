/** What an error body says, for the shapes that OpenAI and its imitators send. Trusts nothing and never throws. */
import { isRecord, type JsonRecord, parseJson } from "./json.ts";

/** https://developers.openai.com/api/docs/guides/error-codes */
export interface VendorError {
  readonly message?: string | undefined;
  readonly code?: string | undefined;
  /** The request field it is about. */
  readonly param?: string | undefined;
  /** A status written into the body. */
  readonly status?: number | undefined;
}

/** Finds the error in a body, given as text or parsed. Never throws. */
export function readVendorError(body: unknown): VendorError {
  const parsed = typeof body === "string" ? parseJson(body) : body;
  if (typeof body === "string" && !isRecord(parsed)) {
    return { message: /^\s*</.test(body) ? undefined : nonEmpty(body) };
  }
  if (!isRecord(parsed)) return {};
  const error = isRecord(parsed.error) ? parsed.error : parsed;
  return {
    message: readMessage(error) ?? (typeof parsed.error === "string" ? nonEmpty(parsed.error) : undefined),
    code: readCode(error),
    param: typeof error.param === "string" ? error.param : undefined,
    status: readStatus(error),
  };
}

/** `message` (OpenAI, vLLM) or `detail`, as text or as a list of what is wrong (FastAPI). */
function readMessage(error: JsonRecord): string | undefined {
  if (typeof error.message === "string") return nonEmpty(error.message);
  if (typeof error.detail === "string") return nonEmpty(error.detail);
  if (!Array.isArray(error.detail)) return undefined;
  const details = error.detail.slice(0, 5).filter(isRecord);
  return nonEmpty(details.map((detail) => [...readPlace(detail.loc), detail.msg].filter(isPlain).join(" ")).join("; "));
}

function readCode(error: JsonRecord): string | undefined {
  const code = typeof error.code === "string" ? error.code : error.type;
  return typeof code === "string" ? code : undefined;
}

function readStatus(error: JsonRecord): number | undefined {
  const status = [error.status, error.code]
    .filter(isPlain)
    .map(Number)
    .find((value) => value >= 400 && value <= 599);
  return status === undefined ? undefined : Math.trunc(status);
}

function nonEmpty(text: string): string | undefined {
  return text.trim() === "" ? undefined : text;
}

function readPlace(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value.slice(0, 10) : [];
}

function isPlain(value: unknown): value is string | number {
  return typeof value === "string" || typeof value === "number";
}
