/** What a session's log holds: to rows and back, and collecting what a read wants from many rows. */
import type { SessionEvent, StoredEvent } from "@leafmesh/protocol";
import * as z from "zod";
import type { MessageRecord } from "../contract.ts";
import { fromJson, messageSchema, objectSchema } from "./json-columns.ts";
import type { SessionLogRow } from "./tables.ts";

/** An event as it lies in its row; its number follows from the row's. */
export type LoggedEvent = { readonly at: number } & SessionEvent;
/** A message as it lies in its row. */
export type LoggedMessage = Omit<MessageRecord, "sessionId" | "position">;

const eventsSchema = z.array(z.object({ at: z.number(), type: z.string(), payload: objectSchema }));
const messagesSchema = z.array(
  z.object({
    runId: z.string(),
    turn: z.number(),
    agent: z.string().nullish(),
    message: messageSchema,
    createdAt: z.number(),
  }),
);

export function toLogRow(
  sessionId: string,
  { lastSeq, lastPosition }: { readonly lastSeq: number; readonly lastPosition: number },
  events: readonly LoggedEvent[],
  messages: readonly LoggedMessage[],
): SessionLogRow {
  return {
    session_id: sessionId,
    last_seq: lastSeq,
    last_position: lastPosition,
    events_json: events.length === 0 ? null : JSON.stringify(events),
    messages_json: messages.length === 0 ? null : JSON.stringify(messages),
  };
}

/**
 * A payload is what the process that stored it had checked against the event's type. It is not checked against today's
 * schema: a stream must replay the events of every earlier release.
 */
function eventsOf({ session_id, last_seq, events_json }: SessionLogRow): StoredEvent[] {
  if (events_json === null) return [];
  const events = fromJson(events_json, eventsSchema, "session_log.events_json", `${session_id}/${last_seq}`);
  const first = last_seq - events.length + 1;
  return events.map(
    ({ type, payload, at }, index) => ({ type, payload, seq: first + index, session_id, ts: at / 1000 }) as StoredEvent,
  );
}

function messagesOf({ session_id, last_position, messages_json }: SessionLogRow): MessageRecord[] {
  if (messages_json === null) return [];
  const key = `${session_id}/${last_position}`;
  const messages = fromJson(messages_json, messagesSchema, "session_log.messages_json", key);
  const first = last_position - messages.length + 1;
  return messages.map((message, index) => ({
    sessionId: session_id,
    position: first + index,
    runId: message.runId,
    turn: message.turn,
    agent: message.agent ?? undefined,
    message: message.message,
    createdAt: message.createdAt,
  }));
}

/** How many rows are read at once. */
export const ROWS_AT_A_TIME = 256;

/** The first `limit` wanted events after `after`. `rowsAfter` finds the rows that hold events after a number, in order. */
export function collectEvents(
  rowsAfter: (seq: number) => readonly SessionLogRow[],
  { after, limit, isWanted }: { after: number; limit: number; isWanted: (event: StoredEvent) => boolean },
): readonly StoredEvent[] {
  const found: StoredEvent[] = [];
  let seen = after;
  while (found.length < limit) {
    const rows = rowsAfter(seen);
    for (const row of rows) {
      for (const event of eventsOf(row)) if (event.seq > after && isWanted(event)) found.push(event);
      seen = row.last_seq;
      if (found.length >= limit) break;
    }
    if (rows.length < ROWS_AT_A_TIME) break;
  }
  return found.length > limit ? found.slice(0, limit) : found;
}

/** The last `limit` wanted messages, oldest first. `rowsBefore` finds the rows that hold messages before a row, newest first. */
export function collectMessages(
  rowsBefore: (row: Pick<SessionLogRow, "last_seq" | "last_position">) => readonly SessionLogRow[],
  { limit, isWanted }: { limit: number; isWanted: (message: MessageRecord) => boolean },
): readonly MessageRecord[] {
  const newestFirst: MessageRecord[] = [];
  let before = { last_seq: Number.MAX_SAFE_INTEGER, last_position: Number.MAX_SAFE_INTEGER };
  while (newestFirst.length < limit) {
    const rows = rowsBefore(before);
    for (const row of rows) {
      for (const message of messagesOf(row).reverse()) if (isWanted(message)) newestFirst.push(message);
      before = row;
      if (newestFirst.length >= limit) break;
    }
    if (rows.length < ROWS_AT_A_TIME) break;
  }
  return newestFirst.slice(0, limit).reverse();
}
