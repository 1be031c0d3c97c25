/** Who follows a session's stream, in any process. */
import type { Clock } from "@leafmesh/protocol";
import { sql } from "kysely";
import type { Closable, SessionPresence } from "../contract.ts";
import type { Database } from "./database.ts";
import { IS_ALIVE } from "./processes.ts";

export interface Presences {
  attach(sessionId: string, executor: boolean): Promise<Closable>;
  of(sessionId: string): Promise<SessionPresence>;
}

export interface PresencesOptions {
  readonly database: Database;
  readonly processId: string;
  readonly clock: Clock;
  /** Streams of the session came or went. */
  onChange(sessionId: string): void;
  /** A stream that left could not be taken off: it counts until its process ends. */
  onFailure(error: unknown): void;
}

export function createPresences({ database, processId, clock, onChange, onFailure }: PresencesOptions): Presences {
  return {
    async attach(sessionId, executor) {
      if (executor) {
        await database
          .updateTable("sessions")
          .set({ executor_declared: 1 })
          .where("id", "=", sessionId)
          .where("executor_declared", "=", 0)
          .execute();
      }
      const { id } = await database
        .insertInto("streams")
        .values({ session_id: sessionId, process_id: processId, executor, left_at: null })
        .returning("id")
        .executeTakeFirstOrThrow();
      onChange(sessionId);
      let isOpen = true;
      return {
        async close() {
          if (!isOpen) return;
          isOpen = false;
          try {
            await database
              .updateTable("streams")
              .set({ left_at: Math.round(clock.nowMs()) })
              .where("id", "=", id)
              .where("left_at", "is", null)
              .execute();
            onChange(sessionId);
          } catch (error) {
            onFailure(error);
          }
        },
      };
    },

    async of(sessionId) {
      const open = sql<boolean>`streams.left_at is null and ${IS_ALIVE}`;
      const leftAt = sql<number>`coalesce(streams.left_at, processes.beat_at)`;
      const [found, session] = await Promise.all([
        database
          .selectFrom("streams")
          .leftJoin("processes", "processes.id", "streams.process_id")
          .select([
            sql<number>`count(*) filter (where ${open})`.as("streams"),
            sql<number>`count(*) filter (where ${open} and streams.executor)`.as("executors"),
            sql<number | null>`max(${leftAt}) filter (where not coalesce(${open}, false))`.as("stream_left_at"),
            sql<number | null>`max(${leftAt}) filter (where not coalesce(${open}, false) and streams.executor)`.as(
              "executor_left_at",
            ),
          ])
          .where("streams.session_id", "=", sessionId)
          .executeTakeFirstOrThrow(),
        database.selectFrom("sessions").select("executor_declared").where("id", "=", sessionId).executeTakeFirst(),
      ]);
      const { streams, executors, stream_left_at: streamLeftAt, executor_left_at: executorLeftAt } = found;
      return {
        streams,
        executors,
        executorDeclared: session?.executor_declared === 1,
        ...(streamLeftAt === null ? {} : { streamLeftAt }),
        ...(executorLeftAt === null ? {} : { executorLeftAt }),
      };
    },
  };
}
