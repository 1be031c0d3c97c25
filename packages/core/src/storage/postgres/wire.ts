/** Words between the processes: LISTEN and NOTIFY on one connection. A word may be lost, never garbled. */
import type { Clock, Logger, Secret, Timer } from "@leafmesh/protocol";
import type { Client, Notification } from "pg";
import * as z from "zod";
import { clientConfig } from "./address.ts";

const CHANNEL = "leafmesh";
/** A payload must be shorter than 8000 bytes. https://www.postgresql.org/docs/15/sql-notify.html */
export const MOST_WORD_BYTES = 7_900;
/** Words that wait for the connection. The oldest are dropped: those who miss some look into the store. */
const MOST_WAITING = 5_000;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 3_000;

const wordSchema = z.discriminatedUnion("kind", [
  /** Events of a session are stored up to `seq`. */
  z.object({ kind: z.literal("events"), id: z.string(), seq: z.number() }),
  /** Frames of a run are stored up to `seq`. */
  z.object({ kind: z.literal("frames"), id: z.string(), seq: z.number() }),
  z.object({ kind: z.literal("presence"), id: z.string() }),
  z.object({ kind: z.literal("transient"), id: z.string(), event: z.record(z.string(), z.unknown()) }),
  /** The queue has work. */
  z.object({ kind: z.literal("work") }),
  z.object({ kind: z.literal("peer"), topic: z.string(), body: z.record(z.string(), z.unknown()) }),
]);
export type Word = z.output<typeof wordSchema>;

export interface WireOptions {
  readonly url: Secret;
  readonly processId: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A word of another process. */
  onWord(word: Word): void;
  /** The connection is there again, and words may have been missed. */
  onReconnected(): void;
}

export interface Wire {
  /** Resolves when the wire listens. */
  open(): Promise<void>;
  /** False when the word is too long to be sent. */
  send(word: Word): boolean;
  /** Whether the connection still answers; a dead one is replaced. */
  check(): Promise<void>;
  close(): Promise<void>;
}

export function createWire({ url, processId, clock, logger, onWord, onReconnected }: WireOptions): Wire {
  /** By what a newer word of the same replaces. */
  let waiting = new Map<string, string>();
  let unnamed = 0;
  let client: Client | undefined;
  let isFlushing = false;
  let isClosed = false;
  let pauseMs = FIRST_PAUSE_MS;
  let retry: Timer | undefined;

  const onNotification = ({ payload, processId: sender }: Notification, own: Client): void => {
    if (payload === undefined || sender === serverProcess(own)) return;
    const word = parse(payload);
    if (word) onWord(word);
    else logger.warn("a word of another process was not understood; is it of another release?", { payload });
  };

  const connect = async (): Promise<void> => {
    const { default: pg } = await import("pg");
    const opened = new pg.Client(clientConfig(url, processId));
    opened.on("error", () => lose(opened));
    opened.on("end", () => lose(opened));
    opened.on("notification", (notification) => onNotification(notification, opened));
    try {
      await opened.connect();
      await opened.query(`listen ${CHANNEL}`);
    } catch (error) {
      await opened.end().catch(() => {});
      throw error;
    }
    if (isClosed) return void (await opened.end().catch(() => {}));
    client = opened;
    pauseMs = FIRST_PAUSE_MS;
    void flush();
  };

  const lose = (lost: Client): void => {
    if (client !== lost) return;
    client = undefined;
    void lost.end().catch(() => {});
    if (!isClosed) reconnectLater();
  };

  const reconnectLater = (): void => {
    retry = clock.schedule(pauseMs, () => {
      connect().then(onReconnected, (error: unknown) => {
        logger.warn("the connection that listens to the other processes is lost; it is tried again", { error });
        if (!isClosed) reconnectLater();
      });
    });
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  };

  const flush = async (): Promise<void> => {
    if (isFlushing) return;
    isFlushing = true;
    // What is said in one turn of the event loop goes out together.
    await new Promise((resolve) => setImmediate(resolve));
    try {
      while (waiting.size > 0 && client) {
        const payloads = [...waiting.values()];
        waiting = new Map();
        await client.query({
          name: "leafmesh_notify",
          text: "select pg_notify($1, word) from unnest($2::text[]) with ordinality as said (word, place) order by place",
          values: [CHANNEL, payloads],
        });
      }
    } catch (error) {
      if (!isClosed) logger.warn("words to the other processes were lost; they look into the store", { error });
    } finally {
      isFlushing = false;
    }
  };

  return {
    open: connect,
    send(word) {
      const name = nameOf(word);
      // Of equal payloads in one transaction PostgreSQL delivers one: a number makes each its own.
      const payload = JSON.stringify(name === undefined ? { ...word, number: unnamed++ } : word);
      if (Buffer.byteLength(payload) > MOST_WORD_BYTES) return false;
      const key = name ?? `${unnamed}`;
      waiting.delete(key);
      waiting.set(key, payload);
      if (waiting.size > MOST_WAITING) waiting.delete(waiting.keys().next().value ?? "");
      void flush();
      return true;
    },
    async check() {
      const checked = client;
      await checked?.query("select 1").catch(() => lose(checked));
    },
    async close() {
      if (client) await flushed();
      isClosed = true;
      retry?.cancel();
      const closing = client;
      client = undefined;
      await closing?.end().catch(() => {});
    },
  };

  async function flushed(): Promise<void> {
    while (isFlushing && client) await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A newer word of this name says all that an older one says. */
function nameOf(word: Word): string | undefined {
  switch (word.kind) {
    case "events":
    case "frames":
    case "presence":
      return `${word.kind} ${word.id}`;
    case "work":
      return word.kind;
    case "transient":
    case "peer":
      return undefined;
    default:
      return word satisfies never;
  }
}

function parse(payload: string): Word | undefined {
  try {
    return wordSchema.safeParse(JSON.parse(payload)).data;
  } catch {
    return undefined;
  }
}

/** The id of the server's process behind the connection, which a notification names as its sender. */
function serverProcess(client: Client): number | undefined {
  return "processID" in client && typeof client.processID === "number" ? client.processID : undefined;
}
