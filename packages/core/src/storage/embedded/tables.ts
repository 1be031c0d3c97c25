/**
 * The tables as Kysely and the row mapping see them. All are STRICT, so a row read back has the types written here.
 * Times are milliseconds since the epoch; columns that end in `_json` hold JSON text.
 */
import type { Outcome, RunStatus } from "@leafmesh/protocol";
import type {
  CallbackRecord,
  CallFace,
  CallRecord,
  CallState,
  OfferRecord,
  ToolRecord,
  WaitRecord,
} from "../contract.ts";

export interface SessionRow {
  id: string;
  mesh_name: string;
  entry_point: string;
  owner: string | null;
  created_at: number;
  last_active_at: number;
  ended_at: number | null;
  context_json: string;
  session_key: string | null;
  /** 1 once a stream of the session said that it executes calls. */
  executor_declared: number;
}

export interface DeviceRow {
  session_id: string;
  position: number;
  id: string;
  name: string | null;
  platform: string | null;
  capabilities_json: string | null;
  sealed_push_token: string;
}

export interface RunRow {
  id: string;
  session_id: string;
  agent: string;
  status: RunStatus;
  input: string;
  reply: string | null;
  error_json: string | null;
  created_at: number;
  started_at: number | null;
  finished_at: number | null;
  deadline_at: number;
  options_json: string | null;
  device_tools_json: string | null;
  output_json: string | null;
  failure_json: string | null;
  version: number;
}

export interface WaitRow {
  id: string;
  run_id: string;
  session_id: string;
  agent: string;
  face: CallFace;
  turn: number;
  state: WaitRecord["state"];
  deadline_at: number;
  call_ids_json: string;
  answer_digest: string | null;
}

export interface CallRow {
  id: string;
  wait_id: string;
  session_id: string;
  run_id: string;
  agent: string;
  face: CallFace;
  turn: number;
  position: number;
  provider_call_id: string;
  tool: string;
  arguments_json: string;
  state: CallState;
  reached: CallRecord["reached"];
  device: string | null;
  room_json: string | null;
  expires_at: number;
  result_json: string | null;
  outcome: Outcome | null;
  result_digest: string | null;
  token_hash: string | null;
  sealed_token: string | null;
  arguments_digest: string | null;
  answered_by: string | null;
  late_json: string | null;
  created_at: number;
  settled_at: number | null;
  used_at: number | null;
  version: number;
}

export interface OfferRow {
  call_id: string;
  position: number;
  channel: OfferRecord["channel"];
  via: string;
  at: number;
  receipt: string | null;
  error: string | null;
}

/** What one commit added to a session: events and messages in order, and the numbers of the last of each so far. */
export interface SessionLogRow {
  session_id: string;
  last_seq: number;
  last_position: number;
  events_json: string | null;
  messages_json: string | null;
}

export interface UploadRow {
  id: string;
  session_id: string;
  call_id: string;
  name: string;
  media_type: string;
  size: number;
  sealed_content: Uint8Array;
  created_at: number;
}

export interface FrameRow {
  run_id: string;
  seq: number;
  at: number;
  type: string;
  data_json: string;
}

export interface ToolRow {
  slug: string;
  kind: string;
  owner: string | null;
  client_owned: number;
  effect: ToolRecord["effect"];
  description: string;
  input_schema_json: string;
  config_json: string;
  created_at: number;
}

export interface CallbackRow {
  id: string;
  run_id: string;
  frame_seq: number;
  /** '' stands for the mesh's own. */
  sealed_url: string;
  event_json: string | null;
  state: CallbackRecord["state"];
  attempts: number;
  due_at: number;
  last_error: string | null;
  created_at: number;
  finished_at: number | null;
  version: number;
}

export interface IdempotencyRow {
  /** '' stands for none. */
  owner: string;
  key: string;
  request_digest: string;
  run_id: string;
  created_at: number;
}

export interface Tables {
  sessions: SessionRow;
  devices: DeviceRow;
  runs: RunRow;
  waits: WaitRow;
  calls: CallRow;
  offers: OfferRow;
  session_log: SessionLogRow;
  uploads: UploadRow;
  frames: FrameRow;
  tools: ToolRow;
  callbacks: CallbackRow;
  idempotency_keys: IdempotencyRow;
  /** One row that a probe writes to. */
  probe: { id: number; count: number };
  migrations: { version: number; name: string; applied_at: number };
}
