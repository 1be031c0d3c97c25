/** Records to rows and back. */
import * as z from "zod";
import type {
  CallbackPatch,
  CallbackRecord,
  CallPatch,
  CallRecord,
  DeviceRecord,
  IdempotencyRecord,
  OfferRecord,
  RunPatch,
  RunRecord,
  SessionRecord,
  StoredFrame,
  ToolRecord,
  UploadRecord,
  WaitRecord,
} from "../contract.ts";
import {
  capabilitiesSchema,
  deviceToolsSchema,
  errorSchema,
  failureSchema,
  fromJson,
  fromOptionalJson,
  lateSchema,
  noticedEventSchema,
  objectSchema,
  optionsSchema,
  roomSchema,
  stringsSchema,
  toJson,
} from "./json-columns.ts";
import type {
  CallbackRow,
  CallRow,
  DeviceRow,
  FrameRow,
  IdempotencyRow,
  OfferRow,
  RunRow,
  SessionRow,
  ToolRow,
  UploadRow,
  WaitRow,
} from "./tables.ts";

export const toSessionRow = (session: SessionRecord): SessionRow => ({
  id: session.id,
  mesh_name: session.meshName,
  entry_point: session.entryPoint,
  owner: session.owner ?? null,
  created_at: wholeMs(session.createdAt),
  last_active_at: wholeMs(session.lastActiveAt),
  ended_at: optionalMs(session.endedAt),
  context_json: JSON.stringify(session.context),
  session_key: session.key ?? null,
  executor_declared: 0,
});

export const toSession = (row: SessionRow): SessionRecord => ({
  id: row.id,
  meshName: row.mesh_name,
  entryPoint: row.entry_point,
  owner: row.owner ?? undefined,
  createdAt: row.created_at,
  lastActiveAt: row.last_active_at,
  endedAt: row.ended_at ?? undefined,
  key: row.session_key ?? undefined,
  context: fromJson(row.context_json, objectSchema, "sessions.context_json", row.id),
});

export const toDeviceRow = (device: DeviceRecord, sessionId: string, position: number): DeviceRow => ({
  session_id: sessionId,
  position,
  id: device.id,
  name: device.name ?? null,
  platform: device.platform ?? null,
  capabilities_json: toJson(device.capabilities),
  sealed_push_token: device.sealedPushToken,
});

export const toDevice = (row: DeviceRow): DeviceRecord => ({
  sessionId: row.session_id,
  id: row.id,
  name: row.name ?? undefined,
  platform: row.platform ?? undefined,
  capabilities: fromOptionalJson(row.capabilities_json, capabilitiesSchema, "devices.capabilities_json", row.id),
  sealedPushToken: row.sealed_push_token,
});

export const toRunRow = (run: RunRecord): RunRow => ({
  id: run.id,
  session_id: run.sessionId,
  agent: run.agent,
  status: run.status,
  input: run.input,
  reply: run.reply ?? null,
  error_json: toJson(run.error),
  created_at: wholeMs(run.createdAt),
  started_at: optionalMs(run.startedAt),
  finished_at: optionalMs(run.finishedAt),
  deadline_at: wholeMs(run.deadlineAt),
  options_json: toJson(run.options),
  device_tools_json: toJson(run.deviceTools),
  output_json: toJson(run.output),
  failure_json: toJson(run.failure),
  version: run.version,
});

export const toRun = (row: RunRow): RunRecord => ({
  id: row.id,
  sessionId: row.session_id,
  agent: row.agent,
  status: row.status,
  input: row.input,
  reply: row.reply ?? undefined,
  error: fromOptionalJson(row.error_json, errorSchema, "runs.error_json", row.id),
  createdAt: row.created_at,
  startedAt: row.started_at ?? undefined,
  finishedAt: row.finished_at ?? undefined,
  deadlineAt: row.deadline_at,
  options: fromOptionalJson(row.options_json, optionsSchema, "runs.options_json", row.id),
  deviceTools: fromOptionalJson(row.device_tools_json, deviceToolsSchema, "runs.device_tools_json", row.id),
  output: fromOptionalJson(row.output_json, objectSchema, "runs.output_json", row.id),
  failure: fromOptionalJson(row.failure_json, failureSchema, "runs.failure_json", row.id),
  version: row.version,
});

/** Only the columns that the patch names; a name whose value is `undefined` clears its column. */
export function toRunColumns(patch: RunPatch): Partial<RunRow> {
  const columns: Partial<RunRow> = {};
  if (patch.status !== undefined) columns.status = patch.status;
  if ("reply" in patch) columns.reply = patch.reply ?? null;
  if ("error" in patch) columns.error_json = toJson(patch.error);
  if ("output" in patch) columns.output_json = toJson(patch.output);
  if ("failure" in patch) columns.failure_json = toJson(patch.failure);
  if ("startedAt" in patch) columns.started_at = optionalMs(patch.startedAt);
  if ("finishedAt" in patch) columns.finished_at = optionalMs(patch.finishedAt);
  return columns;
}

export const toWaitRow = (wait: WaitRecord): WaitRow => ({
  id: wait.id,
  run_id: wait.runId,
  session_id: wait.sessionId,
  agent: wait.agent,
  face: wait.face,
  turn: wait.turn,
  state: wait.state,
  deadline_at: wholeMs(wait.deadlineAt),
  call_ids_json: JSON.stringify(wait.callIds),
  answer_digest: wait.answerDigest ?? null,
});

export const toWait = (row: WaitRow): WaitRecord => ({
  id: row.id,
  runId: row.run_id,
  sessionId: row.session_id,
  agent: row.agent,
  face: row.face,
  turn: row.turn,
  state: row.state,
  deadlineAt: row.deadline_at,
  callIds: fromJson(row.call_ids_json, stringsSchema, "waits.call_ids_json", row.id),
  answerDigest: row.answer_digest ?? undefined,
});

export const toCallRow = (call: CallRecord): CallRow => ({
  id: call.id,
  wait_id: call.waitId,
  session_id: call.sessionId,
  run_id: call.runId,
  agent: call.agent,
  face: call.face,
  turn: call.turn,
  position: call.position,
  provider_call_id: call.providerCallId,
  tool: call.tool,
  arguments_json: JSON.stringify(call.arguments),
  state: call.state,
  reached: call.reached,
  device: call.device ?? null,
  room_json: toJson(call.room),
  expires_at: wholeMs(call.expiresAt),
  result_json: toJson(call.result),
  outcome: call.outcome ?? null,
  result_digest: call.resultDigest ?? null,
  token_hash: call.tokenHash ?? null,
  sealed_token: call.sealedToken ?? null,
  arguments_digest: call.argumentsDigest ?? null,
  answered_by: call.answeredBy ?? null,
  late_json: toJson(call.late),
  created_at: wholeMs(call.createdAt),
  settled_at: optionalMs(call.settledAt),
  used_at: optionalMs(call.usedAt),
  version: call.version,
});

export const toCall = (row: CallRow): CallRecord => ({
  id: row.id,
  waitId: row.wait_id,
  sessionId: row.session_id,
  runId: row.run_id,
  agent: row.agent,
  face: row.face,
  turn: row.turn,
  position: row.position,
  providerCallId: row.provider_call_id,
  tool: row.tool,
  arguments: fromJson(row.arguments_json, objectSchema, "calls.arguments_json", row.id),
  state: row.state,
  reached: row.reached,
  device: row.device ?? undefined,
  room: fromOptionalJson(row.room_json, roomSchema, "calls.room_json", row.id),
  expiresAt: row.expires_at,
  result: fromOptionalJson(row.result_json, z.unknown(), "calls.result_json", row.id),
  outcome: row.outcome ?? undefined,
  resultDigest: row.result_digest ?? undefined,
  tokenHash: row.token_hash ?? undefined,
  sealedToken: row.sealed_token ?? undefined,
  argumentsDigest: row.arguments_digest ?? undefined,
  answeredBy: row.answered_by ?? undefined,
  late: fromOptionalJson(row.late_json, lateSchema, "calls.late_json", row.id),
  createdAt: row.created_at,
  settledAt: row.settled_at ?? undefined,
  usedAt: row.used_at ?? undefined,
  version: row.version,
});

/** As {@link toRunColumns}. */
export function toCallColumns(patch: CallPatch): Partial<CallRow> {
  const columns: Partial<CallRow> = {};
  if (patch.state !== undefined) columns.state = patch.state;
  if (patch.reached !== undefined) columns.reached = patch.reached;
  if (patch.expiresAt !== undefined) columns.expires_at = wholeMs(patch.expiresAt);
  if ("device" in patch) columns.device = patch.device ?? null;
  if ("room" in patch) columns.room_json = toJson(patch.room);
  if ("result" in patch) columns.result_json = toJson(patch.result);
  if ("outcome" in patch) columns.outcome = patch.outcome ?? null;
  if ("resultDigest" in patch) columns.result_digest = patch.resultDigest ?? null;
  if ("sealedToken" in patch) columns.sealed_token = patch.sealedToken ?? null;
  if ("answeredBy" in patch) columns.answered_by = patch.answeredBy ?? null;
  if ("late" in patch) columns.late_json = toJson(patch.late);
  if ("settledAt" in patch) columns.settled_at = optionalMs(patch.settledAt);
  if ("usedAt" in patch) columns.used_at = optionalMs(patch.usedAt);
  return columns;
}

export const toOfferRow = (offer: OfferRecord): Omit<OfferRow, "position"> => ({
  call_id: offer.callId,
  channel: offer.channel,
  via: offer.via,
  at: wholeMs(offer.at),
  receipt: offer.receipt ?? null,
  error: offer.error ?? null,
});

export const toOffer = (row: OfferRow): OfferRecord => ({
  callId: row.call_id,
  channel: row.channel,
  via: row.via,
  at: row.at,
  receipt: row.receipt ?? undefined,
  error: row.error ?? undefined,
});

export const toUploadRow = (upload: UploadRecord): UploadRow => ({
  id: upload.id,
  session_id: upload.sessionId,
  call_id: upload.callId,
  name: upload.name,
  media_type: upload.mediaType,
  size: upload.size,
  sealed_content: upload.sealedContent,
  created_at: wholeMs(upload.createdAt),
});

export const toUpload = (row: UploadRow): UploadRecord => ({
  id: row.id,
  sessionId: row.session_id,
  callId: row.call_id,
  name: row.name,
  mediaType: row.media_type,
  size: row.size,
  sealedContent: row.sealed_content,
  createdAt: row.created_at,
});

export const toFrame = (row: FrameRow): StoredFrame => ({
  runId: row.run_id,
  seq: row.seq,
  at: row.at,
  type: row.type,
  data: fromJson(row.data_json, objectSchema, "frames.data_json", `${row.run_id}/${row.seq}`),
});

export const toToolRow = (tool: ToolRecord): ToolRow => ({
  slug: tool.slug,
  kind: tool.kind,
  owner: tool.owner ?? null,
  client_owned: tool.clientOwned ? 1 : 0,
  effect: tool.effect,
  description: tool.description,
  input_schema_json: JSON.stringify(tool.inputSchema),
  config_json: JSON.stringify(tool.config),
  created_at: wholeMs(tool.createdAt),
});

export const toTool = (row: ToolRow): ToolRecord => ({
  slug: row.slug,
  kind: row.kind,
  owner: row.owner ?? undefined,
  clientOwned: row.client_owned === 1,
  effect: row.effect,
  description: row.description,
  inputSchema: fromJson(row.input_schema_json, objectSchema, "tools.input_schema_json", row.slug),
  config: fromJson(row.config_json, objectSchema, "tools.config_json", row.slug),
  createdAt: row.created_at,
});

export const toCallbackRow = (callback: Omit<CallbackRecord, "frameSeq">): Omit<CallbackRow, "frame_seq"> => ({
  id: callback.id,
  run_id: callback.runId,
  sealed_url: callback.sealedUrl ?? "",
  event_json: callback.event ? JSON.stringify(callback.event) : null,
  state: callback.state,
  attempts: callback.attempts,
  due_at: wholeMs(callback.dueAt),
  last_error: callback.lastError ?? null,
  created_at: wholeMs(callback.createdAt),
  finished_at: optionalMs(callback.finishedAt),
  version: callback.version,
});

export const toCallback = (row: CallbackRow): CallbackRecord => ({
  id: row.id,
  runId: row.run_id,
  frameSeq: row.frame_seq,
  sealedUrl: row.sealed_url === "" ? undefined : row.sealed_url,
  event:
    row.event_json === null ? undefined : fromJson(row.event_json, noticedEventSchema, "callbacks.event_json", row.id),
  state: row.state,
  attempts: row.attempts,
  dueAt: row.due_at,
  lastError: row.last_error ?? undefined,
  createdAt: row.created_at,
  finishedAt: row.finished_at ?? undefined,
  version: row.version,
});

/** As {@link toRunColumns}. */
export function toCallbackColumns(patch: CallbackPatch): Partial<CallbackRow> {
  const columns: Partial<CallbackRow> = {};
  if (patch.state !== undefined) columns.state = patch.state;
  if (patch.attempts !== undefined) columns.attempts = patch.attempts;
  if (patch.dueAt !== undefined) columns.due_at = wholeMs(patch.dueAt);
  if ("lastError" in patch) columns.last_error = patch.lastError ?? null;
  if ("finishedAt" in patch) columns.finished_at = optionalMs(patch.finishedAt);
  return columns;
}

export const toIdempotencyRow = (record: IdempotencyRecord): IdempotencyRow => ({
  owner: record.owner ?? "",
  key: record.key,
  request_digest: record.requestDigest,
  run_id: record.runId,
  created_at: wholeMs(record.createdAt),
});

export const toIdempotency = (row: IdempotencyRow): IdempotencyRecord => ({
  owner: row.owner === "" ? undefined : row.owner,
  key: row.key,
  requestDigest: row.request_digest,
  runId: row.run_id,
  createdAt: row.created_at,
});

/** Times are kept in whole milliseconds; what was reckoned from a monotonic clock has a fraction. */
export const wholeMs = Math.round;

const optionalMs = (at: number | undefined): number | null => (at === undefined ? null : wholeMs(at));
