import type { CommitResult, Write } from "../contract.ts";
import type { Claims } from "./claims.ts";
import type { Database } from "./database.ts";
import { brokenConstraint, isWorthRepeating } from "./errors.ts";
import { lockSessions } from "./locked-sessions.ts";
import { type Announced, applyWrite, type Refusal } from "./writes.ts";

/** How often a transaction is begun again after it lost against others. */
const MOST_TRIES = 6;

/** Ends the transaction and keeps nothing of it. */
class Refused extends Error {
  readonly result: Extract<CommitResult, { committed: false }>;

  constructor(at: number, reason: Refusal) {
    super(`write ${at} was refused: ${reason}`);
    this.result = { committed: false, at, reason };
  }
}

export type Committed = { readonly result: CommitResult; readonly announced: Announced };

/** One commit of the contract as one transaction, begun again when it met a deadlock. */
export async function commitWrites(
  database: Database,
  writes: readonly Write[],
  claims: Claims,
  random: () => number,
): Promise<Committed> {
  for (let tries = 1; ; tries++) {
    try {
      return await transact(database, writes, claims);
    } catch (error) {
      if (error instanceof Refused) return { result: error.result, announced: { events: [], frames: [] } };
      if (tries === MOST_TRIES || !isWorthRepeating(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, random() * 10 * 2 ** tries));
    }
  }
}

async function transact(database: Database, writes: readonly Write[], claims: Claims): Promise<Committed> {
  const announced: Announced = { events: [], frames: [] };
  if (writes.length > 0) {
    await database.transaction().execute(async (transaction) => {
      const sessions = await lockSessions(transaction, writes, claims);
      for (const [at, write] of writes.entries()) {
        let reason: Refusal | undefined;
        try {
          reason = await applyWrite(transaction, write, sessions, announced);
        } catch (error) {
          reason = brokenConstraint(error);
          if (!reason) throw error;
        }
        if (reason) throw new Refused(at, reason);
      }
    });
  }
  return { result: { committed: true, events: announced.events }, announced };
}
