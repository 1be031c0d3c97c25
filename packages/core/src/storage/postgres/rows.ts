/** Events and messages to rows and back: here each is a row, so that processes may add to one session side by side. */
import type { StoredEvent } from "@leafmesh/protocol";
import type { MessageRecord } from "../contract.ts";
import { fromJson, messageSchema, objectSchema } from "../embedded/json-columns.ts";
import { wholeMs } from "../embedded/rows.ts";
import type { EventRow, MessageRow } from "./tables.ts";

export const toMessageRow = (message: Omit<MessageRecord, "position">): Omit<MessageRow, "position"> => ({
  session_id: message.sessionId,
  run_id: message.runId,
  turn: message.turn,
  agent: message.agent ?? null,
  message_json: JSON.stringify(message.message),
  created_at: wholeMs(message.createdAt),
});

export const toMessage = (row: MessageRow): MessageRecord => ({
  sessionId: row.session_id,
  position: row.position,
  runId: row.run_id,
  turn: row.turn,
  agent: row.agent ?? undefined,
  message: fromJson(row.message_json, messageSchema, "messages.message_json", `${row.session_id}/${row.position}`),
  createdAt: row.created_at,
});

/** Not checked against today's schema of the type: a stream must replay the events of every earlier release. */
export function toEvent(row: EventRow): StoredEvent {
  const payload = fromJson(row.payload_json, objectSchema, "events.payload_json", `${row.session_id}/${row.seq}`);
  return { type: row.type, payload, seq: row.seq, session_id: row.session_id, ts: row.at / 1000 } as StoredEvent;
}
