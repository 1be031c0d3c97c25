/** Handles messages one after another in the order of arrival, however long each takes. */
export interface Inbox<Message> {
  /** False when `limit` messages are waiting already: this one is dropped. */
  push(message: Message): boolean;
  /** What waits is dropped and nothing more is taken. */
  close(): void;
}

/** `handle` must not reject; what it cannot deal with is its own to report. */
export function createInbox<Message>(limit: number, handle: (message: Message) => Promise<void>): Inbox<Message> {
  const waiting: Message[] = [];
  let busy = false;
  let closed = false;

  const drain = async (): Promise<void> => {
    busy = true;
    for (let message = waiting.shift(); message !== undefined && !closed; message = waiting.shift()) {
      await handle(message);
    }
    busy = false;
  };

  return {
    push(message) {
      if (closed || waiting.length >= limit) return false;
      waiting.push(message);
      if (!busy) void drain();
      return true;
    },
    close() {
      closed = true;
      waiting.length = 0;
    },
  };
}
