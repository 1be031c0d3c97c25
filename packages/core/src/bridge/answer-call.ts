/** Takes the result of a call that a client executed. What became of the stored call decides the answer. */
import { isOpenCall } from "../calls/pending-calls.ts";
import { hashToken, tokensMatch } from "../security/tokens.ts";
import type { CallRecord, Write } from "../storage/contract.ts";
import { sealedUpload } from "../uploads/uploads.ts";
import { type AnswerBody, parseAnswer } from "./answer-body.ts";
import type { BridgeResult } from "./bridge-result.ts";
import { type BridgeServices, isPastDeadline } from "./bridge-services.ts";
import { endingSettlement, endingStory, settledEvent } from "./endings.ts";

export interface DeviceToolAnswer {
  readonly sessionId: string;
  readonly callId: string;
  /** Name of the API key that brings it. */
  readonly owner?: string | undefined;
  /** The posted JSON; `undefined` when it was none. */
  readonly body: unknown;
}

export type DeviceToolAnswered =
  /** It is stored and the model will read it. */
  | { readonly status: "resolved" }
  /** The call is as it was; `message` says what is wrong with the body. */
  | { readonly status: "malformed"; readonly message: string }
  /** There is no such call in the session, or it ended without a result. */
  | { readonly status: "no_such_call" }
  | { readonly status: "wrong_token" }
  /** An earlier result stands. `same`: it is equal to this one. */
  | { readonly status: "already_resolved"; readonly same: boolean };

type GoodBody = Extract<AnswerBody, { ok: true }>;

/** @throws {StorageError} the result may then have been stored or not; posting it again finds out */
export async function answerDeviceTool(
  services: BridgeServices,
  answer: DeviceToolAnswer,
): Promise<DeviceToolAnswered> {
  const body = parseAnswer(answer.body);
  if (!body.ok) return { status: "malformed", message: body.message };
  const call = await services.backend.call(answer.callId);
  if (call?.face !== "bridge" || call.sessionId !== answer.sessionId) return { status: "no_such_call" };
  if (!isOpenCall(call) || !isPastDeadline(services, call)) return judge(services, call, body, answer);
  const expired = await services.calls.settle(call, endingSettlement(call, "expired"), endingStory(call.id, "expired"));
  const ended = expired.status === "settled" ? expired.call : await services.backend.call(call.id);
  return ended ? judge(services, ended, body, answer) : { status: "no_such_call" };
}

/** By what the record says; nothing of it is past its deadline and still open. */
async function judge(
  services: BridgeServices,
  call: CallRecord,
  body: GoodBody,
  answer: DeviceToolAnswer,
): Promise<DeviceToolAnswered> {
  const tokenFits = tokensMatch(call.tokenHash ?? "", hashToken(body.token));
  const wasAnswered = call.resultDigest !== undefined;
  if (!isOpenCall(call) && !wasAnswered) {
    if (tokenFits) await services.calls.keepLate(call, { digest: body.digest, result: lateResult(body) });
    return { status: "no_such_call" };
  }
  if (!tokenFits) return { status: "wrong_token" };
  if (wasAnswered) return { status: "already_resolved", same: call.resultDigest === body.digest };
  return settle(services, call, body, answer);
}

async function settle(
  services: BridgeServices,
  call: CallRecord,
  body: GoodBody,
  answer: DeviceToolAnswer,
): Promise<DeviceToolAnswered> {
  const { result, writes } = storedResult(services, call, body);
  const settlement = {
    state: "answered",
    reached: "yes",
    result,
    answeredBy: answer.owner,
    resultDigest: body.digest,
  } as const;
  const moved = await services.calls.settle(call, settlement, { events: [settledEvent(call.id, "answered")], writes });
  if (moved.status === "moved") return { status: "resolved" };
  // Somebody else was first; a settled call leads to no further settlement.
  return moved.status === "settled" ? judge(services, moved.call, body, answer) : { status: "no_such_call" };
}

/** The image goes into the upload store, beside the call and in the same commit. */
function storedResult(
  { sealer, newId, clock }: BridgeServices,
  call: CallRecord,
  { outcome }: GoodBody,
): { readonly result: BridgeResult; readonly writes: readonly Write[] } {
  if (outcome.status === "error") return { result: outcome, writes: [] };
  const { status, result, image } = outcome;
  if (!image) return { result: { status, result }, writes: [] };
  const upload = sealedUpload(sealer, {
    id: newId("upl"),
    sessionId: call.sessionId,
    callId: call.id,
    name: `image.${image.mediaType.slice("image/".length)}`,
    mediaType: image.mediaType,
    content: image.bytes,
    createdAt: clock.nowMs(),
  });
  return { result: { status, result, uploads: [upload.id] }, writes: [{ kind: "upload.create", upload }] };
}

/** Without its image, which would be bytes that nobody asks for. */
function lateResult({ outcome }: GoodBody): BridgeResult {
  return outcome.status === "error" ? outcome : { status: "ok", result: outcome.result };
}
