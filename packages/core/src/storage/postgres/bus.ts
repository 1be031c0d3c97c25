/** Events and frames to the listeners of this process and, as words, to those of the others. */
import { type Logger, type StoredEvent, type TransientEvent, transientPayloads } from "@leafmesh/protocol";
import { sql } from "kysely";
import type { RunListener, SessionListener, StoredFrame } from "../contract.ts";
import type { Database } from "./database.ts";
import { createFollowers, type Followers } from "./followers.ts";
import type { Reads } from "./reads.ts";
import type { TransientSender } from "./transients.ts";
import type { Word } from "./wire.ts";
import type { Announced } from "./writes.ts";

export interface BusOptions {
  readonly logger: Logger;
  store(): { readonly database: Database; readonly reads: Reads };
  say(word: Word): void;
  /** `undefined` while this process is alone. */
  transients(): TransientSender | undefined;
}

export interface Bus {
  subscribe(sessionId: string, listener: SessionListener): () => void;
  subscribeRun(runId: string, listener: RunListener): () => void;
  /** See {@link Followers.placed}. */
  placed(): Promise<unknown> | undefined;
  publish(announced: Announced): void;
  publishTransient(sessionId: string, event: TransientEvent): void;
  publishPresence(sessionId: string): void;
  /** What another process said; false for a word that is not for listeners. */
  heard(word: Word): boolean;
  catchUp(): Promise<void>;
}

export function createBus({ logger, store, say, transients }: BusOptions): Bus {
  const sessions: Followers<StoredEvent, SessionListener> = createFollowers({
    logger,
    idName: "session_id",
    seqOf: (event) => event.seq,
    deliver: (listener, events) => listener.onEvents(events),
    read: (id, after, limit) => store().reads.events(id, { after, limit }),
    newest: (ids) => newest(store().database, "events", ids),
  });
  const runs: Followers<StoredFrame, RunListener> = createFollowers({
    logger,
    idName: "run_id",
    seqOf: (frame) => frame.seq,
    deliver: (listener, frames) => listener.onFrames(frames),
    read: (id, after, limit) => store().reads.frames(id, { after, limit }),
    newest: (ids) => newest(store().database, "frames", ids),
  });

  const toSession = (sessionId: string, event: TransientEvent): void =>
    sessions.call(sessionId, (listener) => listener.onTransient(event));
  const presenceChanged = (sessionId: string): void => sessions.call(sessionId, (listener) => listener.onPresence?.());

  return {
    subscribe: sessions.subscribe,
    subscribeRun: runs.subscribe,

    placed() {
      const ofSessions = sessions.placed();
      const ofRuns = runs.placed();
      return ofSessions || ofRuns ? Promise.all([ofSessions, ofRuns]) : undefined;
    },

    publish({ events, frames }) {
      for (const [id, ofSession] of Map.groupBy(events, (event) => event.session_id)) {
        sessions.stored(id, ofSession);
        say({ kind: "events", id, seq: ofSession.at(-1)?.seq ?? 0 });
      }
      for (const [id, ofRun] of Map.groupBy(frames, (frame) => frame.runId)) {
        runs.stored(id, ofRun);
        say({ kind: "frames", id, seq: ofRun.at(-1)?.seq ?? 0 });
      }
    },

    publishTransient(sessionId, event) {
      toSession(sessionId, event);
      transients()?.send(sessionId, event);
    },

    publishPresence(sessionId) {
      presenceChanged(sessionId);
      say({ kind: "presence", id: sessionId });
    },

    heard(word) {
      switch (word.kind) {
        case "events":
          sessions.heard(word.id, word.seq);
          return true;
        case "frames":
          runs.heard(word.id, word.seq);
          return true;
        case "presence":
          presenceChanged(word.id);
          return true;
        case "transient": {
          const event = transientEvent(word.event);
          if (event) toSession(word.id, event);
          return true;
        }
        default:
          return false;
      }
    },

    async catchUp() {
      await Promise.all([sessions.catchUp(), runs.catchUp()]);
    },
  };
}

/** `undefined` for what another release may send. */
function transientEvent({ type, payload }: Readonly<Record<string, unknown>>): TransientEvent | undefined {
  switch (type) {
    case "model.delta":
    case "session_state":
    case "stream_end": {
      const parsed = transientPayloads[type].safeParse(payload);
      return parsed.success ? ({ type, payload: parsed.data } as TransientEvent) : undefined;
    }
    default:
      return undefined;
  }
}

async function newest(
  database: Database,
  table: "events" | "frames",
  ids: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const id = sql.ref(table === "events" ? "session_id" : "run_id");
  const { rows } = await sql<{ id: string; seq: number }>`
    select wanted.id, (select max(seq) from ${sql.table(table)} where ${id} = wanted.id) as seq
    from unnest(${[...ids]}::text[]) as wanted (id)`.execute(database);
  return new Map(rows.map(({ id: found, seq }) => [found, seq ?? 0]));
}
