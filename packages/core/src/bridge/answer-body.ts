/** The body that a client posts as the result of a call. Pure. */
import { utf8Length } from "@leafmesh/protocol";
import * as z from "zod";
import type { BridgeError } from "./bridge-result.ts";
import { digestOf } from "./digest.ts";
import { type LiftedImage, liftImage } from "./images.ts";

/** Of `result` without its image, as JSON text in UTF-8. */
export const MAX_RESULT_BYTES = 1024 * 1024;

export type AnswerBody =
  | {
      readonly ok: true;
      readonly token: string;
      /** Of what was posted, to recognise a repeat. */
      readonly digest: string;
      readonly outcome:
        | { readonly status: "ok"; readonly result: unknown; readonly image?: LiftedImage | undefined }
        | { readonly status: "error"; readonly error: BridgeError };
    }
  | { readonly ok: false; readonly message: string };

const headSchema = z.object({
  call_token: z.string("call_token must be a text").min(1, "call_token must not be empty"),
  status: z.enum(["ok", "error"], 'status must be "ok" or "error"'),
});
const errorSchema = z.object(
  {
    code: z.string("error.code must be a text").nullish(),
    message: z.string("error.message must be a text").nullish(),
  },
  "error must be an object with a code or a message",
);

/** Keys that the contract does not name are ignored, also inside `error`; what is not an object counts as empty. */
export function parseAnswer(body: unknown): AnswerBody {
  const fields: Readonly<Record<string, unknown>> =
    typeof body === "object" && body !== null && !Array.isArray(body) ? { ...body } : {};
  const head = headSchema.safeParse(fields);
  if (!head.success) return malformed(head.error);
  const { call_token: token, status } = head.data;
  return status === "ok" ? okAnswer(token, fields.result ?? null) : errorAnswer(token, fields.error);
}

function okAnswer(token: string, posted: unknown): AnswerBody {
  const lifted = liftImage(posted);
  if (!lifted.ok) return lifted;
  const { result, image } = lifted;
  if (utf8Length(JSON.stringify(result)) > MAX_RESULT_BYTES) {
    return { ok: false, message: `result is larger than ${MAX_RESULT_BYTES} bytes of JSON` };
  }
  return {
    ok: true,
    token,
    digest: digestOf({ status: "ok", result: posted }),
    outcome: { status: "ok", result, image },
  };
}

function errorAnswer(token: string, posted: unknown): AnswerBody {
  const parsed = errorSchema.safeParse(posted);
  if (!parsed.success) return malformed(parsed.error);
  const code = parsed.data.code?.trim() ?? "";
  const message = parsed.data.message?.trim() ?? "";
  if (code === "" && message === "") return { ok: false, message: "error must have a code or a message" };
  const error = {
    code: code === "" ? "device_error" : code,
    message: message === "" ? "The device reported an error." : message,
  };
  return { ok: true, token, digest: digestOf({ status: "error", error }), outcome: { status: "error", error } };
}

function malformed(error: z.ZodError): AnswerBody {
  return { ok: false, message: error.issues[0]?.message ?? "the body is not as documented" };
}
