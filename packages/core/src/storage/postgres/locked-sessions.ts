import type { Kysely } from "kysely";
import type { Write } from "../contract.ts";
import type { Claims } from "./claims.ts";
import type { Tables } from "./tables.ts";
import type { Refusal } from "./writes.ts";

/** What a commit knows of its sessions, which nobody else changes until it ends. */
export interface LockedSessions {
  /** A session that has ended takes no new work and no new secrets; `undefined` means that it may. */
  refuseUnlessLive(sessionId: string): Refusal | undefined;
  /** False when this process drove the run and another one has taken it over: its history is no longer ours. */
  mayAddTo(sessionId: string, runId: string): boolean;
  created(sessionId: string, hasEnded: boolean): void;
  ended(sessionId: string): void;
}

/**
 * Locks the rows of every session that the writes are about. So events and messages get their numbers without a gap, a
 * session does not end under new work, and of two commits one waits for the other before either has locked anything else.
 */
export async function lockSessions(
  database: Kysely<Tables>,
  writes: readonly Write[],
  claims: Claims,
): Promise<LockedSessions> {
  const ids = [...new Set(writes.map(sessionOf).filter((id) => id !== undefined))].sort();
  const rows =
    ids.length === 0
      ? []
      : await database
          .selectFrom("sessions")
          .select(["id", "ended_at", "driver"])
          .where("id", "in", ids)
          .orderBy("id")
          .forNoKeyUpdate()
          .execute();
  const known = new Map(rows.map((row) => [row.id, { hasEnded: row.ended_at !== null, driver: row.driver }]));

  return {
    refuseUnlessLive(sessionId) {
      const session = known.get(sessionId);
      if (!session) return "missing";
      return session.hasEnded ? "conflict" : undefined;
    },
    mayAddTo(sessionId, runId) {
      const claim = claims.of(runId);
      if (claim === undefined || known.get(sessionId)?.driver === claim) return true;
      claims.lost(runId);
      return false;
    },
    created: (sessionId, hasEnded) => void known.set(sessionId, { hasEnded, driver: null }),
    ended: (sessionId) => void known.set(sessionId, { hasEnded: true, driver: known.get(sessionId)?.driver ?? null }),
  };
}

function sessionOf(write: Write): string | undefined {
  switch (write.kind) {
    case "session.touch":
    case "session.end":
    case "devices.replace":
    case "event.append":
      return write.sessionId;
    case "run.create":
      return write.run.sessionId;
    case "message.append":
      return write.message.sessionId;
    case "wait.create":
      return write.wait.sessionId;
    case "call.create":
      return write.call.sessionId;
    case "upload.create":
      return write.upload.sessionId;
    default:
      return undefined;
  }
}
