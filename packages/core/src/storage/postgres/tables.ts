/** The tables as Kysely sees them: those of the embedded backend, and what several processes need beside. */
import type { SessionEventType } from "@leafmesh/protocol";
import type { Generated } from "kysely";
import type {
  CallbackRow,
  CallRow,
  SessionRow as CommonSessionRow,
  Tables as CommonTables,
  RunRow,
  WaitRow,
} from "../embedded/tables.ts";

/** Order of insertion: decides between records of one millisecond. */
interface Numbered {
  number: Generated<number>;
}

export interface SessionRow extends CommonSessionRow {
  /** The claim of the process that drives a run of the session; only it adds to that run's history. */
  driver: string | null;
}

export interface MessageRow {
  session_id: string;
  position: number;
  run_id: string;
  turn: number;
  agent: string | null;
  message_json: string;
  created_at: number;
}

export interface EventRow {
  session_id: string;
  seq: number;
  at: number;
  type: SessionEventType;
  payload_json: string;
}

/** A process that uses the database. `beat_at` is the database's time of its last sign of life. */
export interface ProcessRow {
  id: string;
  beat_at: number;
}

/** A stream that follows a session in some process. */
export interface StreamRow {
  id: Generated<number>;
  session_id: string;
  process_id: string;
  executor: boolean;
  left_at: number | null;
}

export interface Tables
  extends Omit<CommonTables, "sessions" | "runs" | "waits" | "calls" | "callbacks" | "session_log"> {
  sessions: SessionRow & Numbered;
  runs: RunRow & Numbered;
  waits: WaitRow & Numbered;
  calls: CallRow & Numbered;
  callbacks: CallbackRow & Numbered;
  events: EventRow;
  messages: MessageRow;
  processes: ProcessRow;
  streams: StreamRow;
  /** What the processes of a mesh must agree on: the first value that any of them brought. */
  agreements: { name: string; value: string };
}
