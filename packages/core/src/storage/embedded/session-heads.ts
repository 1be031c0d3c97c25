/** What a commit has to know of a session it adds to. */
export interface SessionHead {
  hasEnded: boolean;
  /** Number of its newest event; 0 when there is none. */
  lastSeq: number;
  /** Place of its newest message; 0 when there is none. */
  lastPosition: number;
}

/**
 * Heads of the sessions that were written to last. No other process writes to the database, so what was read once, or
 * written by a commit, stays true until the next write here; only a commit that is undone takes it back.
 */
export interface SessionHeads {
  /** `undefined`: there is no such session. */
  of(sessionId: string): SessionHead | undefined;
  created(sessionId: string): void;
  ended(sessionId: string): void;
  /** Forgets everything: writes were undone. */
  forget(): void;
}

const MOST_HEADS = 10_000;

/** `read` looks into the database, inside the transaction that is open. */
export function createSessionHeads(read: (sessionId: string) => SessionHead | undefined): SessionHeads {
  const heads = new Map<string, SessionHead>();

  const keep = (sessionId: string, head: SessionHead): void => {
    for (const oldest of heads.keys()) {
      if (heads.size < MOST_HEADS) break;
      heads.delete(oldest);
    }
    heads.set(sessionId, head);
  };

  return {
    of(sessionId) {
      const known = heads.get(sessionId);
      if (known) return known;
      const head = read(sessionId);
      if (head) keep(sessionId, head);
      return head;
    },
    created: (sessionId) => keep(sessionId, { hasEnded: false, lastSeq: 0, lastPosition: 0 }),
    ended(sessionId) {
      const head = heads.get(sessionId);
      if (head) head.hasEnded = true;
    },
    forget: () => heads.clear(),
  };
}
