/** Somebody who waits for a turn. */
export interface Waiter {
  turnCame(): void;
}

/**
 * One ask at a time for each device of a conversation, in the order they came. Asks to different devices do not wait
 * for each other. A waiter that gives up leaves like any other; nobody waits here longer than for its own deadline.
 */
export class DeviceQueue {
  readonly #lines = new Map<string, Waiter[]>();

  /** Calls `turnCame` when all who came before have left; at once when nobody has. */
  enter(key: string, waiter: Waiter): void {
    const line = this.#lines.get(key);
    if (line) {
      line.push(waiter);
      return;
    }
    this.#lines.set(key, [waiter]);
    waiter.turnCame();
  }

  /** Gives up the turn, or the place in the line. Somebody who is not in the line changes nothing. */
  leave(key: string, waiter: Waiter): void {
    const line = this.#lines.get(key);
    const place = line?.indexOf(waiter) ?? -1;
    if (!line || place < 0) return;
    line.splice(place, 1);
    if (line.length === 0) this.#lines.delete(key);
    else if (place === 0) line[0]?.turnCame();
  }
}
