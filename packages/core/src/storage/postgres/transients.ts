/** Events that are not stored, on their way to the other processes. */
import type { Clock, Timer, TransientEvent } from "@leafmesh/protocol";

/** How long pieces of an answer are gathered before they go out as one. */
const GATHER_MS = 40;
/** Characters of one piece. A character is at most six bytes as JSON text: `\u0000`. */
const LONGEST_PIECE = 1_200;

export interface TransientSender {
  send(sessionId: string, event: TransientEvent): void;
  close(): void;
}

/**
 * Sends transient events on: those of type `model.delta` gathered by run, and cut to what a notification carries. An
 * event of another type goes out after the pieces that came before it.
 */
export function createTransientSender(
  clock: Clock,
  say: (sessionId: string, event: TransientEvent) => void,
): TransientSender {
  const gathered = new Map<string, { readonly sessionId: string; readonly runId: string; text: string }>();
  let timer: Timer | undefined;

  const flush = (): void => {
    timer?.cancel();
    timer = undefined;
    for (const { sessionId, runId, text } of gathered.values()) {
      for (const piece of pieces(text)) {
        say(sessionId, { type: "model.delta", payload: { run_id: runId, text: piece } });
      }
    }
    gathered.clear();
  };

  return {
    send(sessionId, event) {
      if (event.type !== "model.delta") {
        flush();
        return say(sessionId, event);
      }
      const { run_id: runId, text } = event.payload;
      const key = `${sessionId} ${runId}`;
      const known = gathered.get(key);
      if (known) known.text += text;
      else gathered.set(key, { sessionId, runId, text });
      timer ??= clock.schedule(GATHER_MS, flush);
    },
    close: flush,
  };
}

/** Never cut inside a surrogate pair. */
function pieces(text: string): string[] {
  const cut: string[] = [];
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + LONGEST_PIECE, text.length);
    if (to < text.length && /[\ud800-\udbff]/.test(text.charAt(to - 1))) to--;
    cut.push(text.slice(from, to));
    from = to;
  }
  return cut;
}
