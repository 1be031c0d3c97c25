/** The messages of one connection of an event stream, and the end of a connection that has gone silent. */
import type { Clock } from "@leafmesh/protocol";
import { createParser, type EventSourceMessage, type ParseError } from "eventsource-parser";

/** The mesh sends a comment every 15 s. Two that are missing, and some time for a slow network, mean that nobody is there. */
export const SILENCE_MS = 40_000;
/** Of one message. */
const MAX_MESSAGE_CHARACTERS = 16 * 1024 * 1024;

/** Ends when the stream does; rejects when the connection breaks, is silent for {@link SILENCE_MS} or sends too much. */
export async function* readMessages(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  clock: Clock,
): AsyncGenerator<EventSourceMessage> {
  const ready: EventSourceMessage[] = [];
  let broken: ParseError | undefined;
  const parser = createParser({
    onEvent: (message) => ready.push(message),
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") broken = error;
    },
    maxBufferSize: MAX_MESSAGE_CHARACTERS,
  });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await withinSilence(reader.read(), clock);
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* ready.splice(0);
      if (broken) throw broken;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

/** The time runs only while the reader waits, so one that takes its time does not look like a silent mesh. */
function withinSilence<Value>(read: Promise<Value>, clock: Clock): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = clock.schedule(SILENCE_MS, () =>
      reject(new Error(`nothing came for ${SILENCE_MS / 1000} s, not even a heartbeat`)),
    );
    read.then(resolve, reject).finally(() => timer.cancel());
  });
}
