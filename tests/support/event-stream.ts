/** A session's event stream as a client reads it. */
import { createParser } from "eventsource-parser";
import { until } from "./until.ts";

export interface ReadFrame {
  /** Number of a stored event. */
  readonly id: number | undefined;
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface ReadStream {
  readonly frames: readonly ReadFrame[];
  /** The first frame that matches, already read or to come. */
  waitFor(what: string, matches: (frame: ReadFrame) => boolean): Promise<ReadFrame>;
  close(): Promise<void>;
}

export async function readStream(
  meshUrl: string,
  sessionId: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<ReadStream> {
  const closing = new AbortController();
  const response = await fetch(`${meshUrl}/api/sessions/${sessionId}/stream`, { headers, signal: closing.signal });
  if (!response.ok || !response.body) throw new Error(`the stream was refused: ${response.status}`);
  const frames: ReadFrame[] = [];
  const parser = createParser({
    onEvent({ id, data }) {
      const frame = JSON.parse(data) as { type: string; payload: Record<string, unknown> };
      frames.push({ ...frame, id: id === undefined ? undefined : Number(id) });
    },
  });
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) parser.feed(decoder.decode(chunk, { stream: true }));
  })().catch(() => {});
  return {
    frames,
    waitFor: (what, matches) => until(what, async () => frames.find(matches)),
    async close() {
      closing.abort();
      await reading;
    },
  };
}
