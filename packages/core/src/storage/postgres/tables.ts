/** The tables as Kysely sees them: those of the embedded backend, and what several processes need beside. */
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

export interface Tables extends Omit<CommonTables, "sessions" | "runs" | "waits" | "calls" | "callbacks"> {
  sessions: SessionRow & Numbered;
  runs: RunRow & Numbered;
  waits: WaitRow & Numbered;
  calls: CallRow & Numbered;
  callbacks: CallbackRow & Numbered;
  processes: ProcessRow;
  streams: StreamRow;
  /** What the processes of a mesh must agree on: the first value that any of them brought. */
  agreements: { name: string; value: string };
}
