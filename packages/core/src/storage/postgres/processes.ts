/** Signs of life: which processes use the database, as the database's own clock sees it. */
import { type Kysely, sql } from "kysely";
import type { Database } from "./database.ts";
import type { Tables } from "./tables.ts";

export const BEAT_MS = 3_000;
/** A process that gave no sign of life for this long is taken for dead. */
export const DEAD_AFTER_MS = 10_000;
/** How long it is known when a session's last stream left. */
const STREAMS_REMEMBERED_MS = 120_000;

/** The database's clock, in milliseconds: the one clock that all processes share. */
export const NOW_MS = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;

/** Whether the process of the row `processes` is alive. */
export const IS_ALIVE = sql<boolean>`processes.beat_at > ${NOW_MS} - ${sql.lit(DEAD_AFTER_MS)}`;

export async function beat(database: Database, id: string): Promise<void> {
  await database
    .insertInto("processes")
    .values({ id, beat_at: NOW_MS })
    .onConflict((conflict) => conflict.column("id").doUpdateSet({ beat_at: NOW_MS }))
    .execute();
}

export async function countAlive(database: Database): Promise<number> {
  const { count } = await database
    .selectFrom("processes")
    .select((select) => select.fn.countAll<number>().as("count"))
    .where(IS_ALIVE)
    .executeTakeFirstOrThrow();
  return count;
}

/** Ends the process's streams as left now, and forgets the process. */
export async function leave(database: Kysely<Tables>, id: string, now: number): Promise<void> {
  await database
    .updateTable("streams")
    .set({ left_at: Math.round(now) })
    .where("process_id", "=", id)
    .where("left_at", "is", null)
    .execute();
  await database.deleteFrom("processes").where("id", "=", id).execute();
}

/** Turns the streams of dead processes into streams that left at their last sign of life, and forgets what is old. */
export async function buryDead(database: Database): Promise<void> {
  await database
    .updateTable("streams")
    .from("processes")
    .set({ left_at: sql<number>`processes.beat_at` })
    .whereRef("processes.id", "=", "streams.process_id")
    .where("streams.left_at", "is", null)
    .where((is) => is.not(IS_ALIVE))
    .execute();
  await database
    .deleteFrom("streams")
    .where("left_at", "<", sql<number>`${NOW_MS} - ${sql.lit(STREAMS_REMEMBERED_MS)}`)
    .execute();
  await database
    .deleteFrom("processes")
    .where("beat_at", "<", sql<number>`${NOW_MS} - ${sql.lit(STREAMS_REMEMBERED_MS)}`)
    .execute();
}
