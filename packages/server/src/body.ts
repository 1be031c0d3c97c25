/** Reading a request body: bounded in bytes, time and depth, JSON only, parsed by the route's own schema. */
import type { IncomingMessage } from "node:http";
import type * as z from "zod";
import { ApiError } from "./errors.ts";

const MAX_DEPTH = 64;
/** A body that arrives slower than this is given up. */
const BODY_TIMEOUT_MS = 30_000;

/** The raw body. Throws 413 `too_large` before buffering more than `maxBytes`, 408 when it does not arrive in time. */
export async function readBytes(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const tooLarge = () =>
    new ApiError(413, "too_large", `The body is larger than ${maxBytes} bytes.`, { headers: { connection: "close" } });
  const announced = Number(request.headers["content-length"]);
  if (Number.isFinite(announced) && announced > maxBytes) throw tooLarge();

  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = (settle: () => void): void => {
      clearTimeout(timer);
      request.off("data", onData).off("end", onEnd).off("error", onError).off("close", onClose);
      settle();
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.byteLength;
      if (size > maxBytes) {
        request.pause();
        done(() => reject(tooLarge()));
      } else chunks.push(chunk);
    };
    const onEnd = (): void => done(() => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
    const onError = (cause: unknown): void =>
      done(() => reject(new ApiError(400, "incomplete_body", "The body ended early.", { cause })));
    const onClose = (): void => done(() => reject(new ApiError(400, "incomplete_body", "The body ended early.")));
    const timer = setTimeout(
      () =>
        done(() =>
          reject(
            new ApiError(408, "body_timeout", `The body did not arrive within ${BODY_TIMEOUT_MS / 1000} s.`, {
              headers: { connection: "close" },
            }),
          ),
        ),
      BODY_TIMEOUT_MS,
    );
    request.on("data", onData).on("end", onEnd).on("error", onError).on("close", onClose);
  });
}

/** The JSON body as `schema` sees it. Throws 415, 413, 400 `invalid_json` and 400 `invalid_request` with the places. */
export async function readJson<Schema extends z.ZodType>(
  request: IncomingMessage,
  schema: Schema,
  maxBytes: number,
): Promise<z.output<Schema>> {
  const type = request.headers["content-type"] ?? "";
  if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(type)) {
    throw new ApiError(415, "unsupported_media_type", "Send JSON with the header content-type: application/json.");
  }
  const text = (await readBytes(request, maxBytes)).toString("utf8");
  if (isTooDeep(text)) {
    throw new ApiError(400, "invalid_json", `The body is nested more than ${MAX_DEPTH} levels deep.`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    // The parser's message may quote the body, which may hold a push token: only its position is passed on.
    const position = /position (\d+)/.exec(String(cause))?.[1];
    throw new ApiError(400, "invalid_json", `The body is not valid JSON${position ? ` (at byte ${position})` : ""}.`);
  }
  return parseWith(schema, value);
}

/** `value` through `schema`, or a 400 whose details name each place. Values are never quoted. */
export function parseWith<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value, { reportInput: false });
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => ({ field: [...issue.path, key].join("."), message: "unknown field" }))
      : [{ field: issue.path.join("."), message: issue.message }],
  );
  const first = details[0];
  const where = first?.field ? `${first.field}: ${first.message}` : (first?.message ?? "not as documented");
  const more = details.length > 1 ? ` (and ${details.length - 1} more, see details)` : "";
  throw new ApiError(400, "invalid_request", `${where}${more}`, { details });
}

/** Counts brackets outside strings, so that a hostile body is refused before anything walks it. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const character = text.charCodeAt(index);
    if (inString) {
      if (character === 0x5c) index++;
      else if (character === 0x22) inString = false;
    } else if (character === 0x22) inString = true;
    else if (character === 0x7b || character === 0x5b) {
      if (++depth > MAX_DEPTH) return true;
    } else if (character === 0x7d || character === 0x5d) depth--;
  }
  return false;
}
