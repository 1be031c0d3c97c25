/** Somebody who waits for a turn. */
export interface Waiter {
  turnCame(): void;
}

interface Place {
  readonly waiter: Waiter;
  /** Takes the turn when it comes. */
  isReady: boolean;
}

/**
 * One ask at a time for each device of a conversation, in the order they came. Asks to different devices do not wait
 * for each other. Whoever has something to do first keeps a place meanwhile. A waiter that gives up leaves like any other; nobody waits here longer than for its own deadline.
 */
export class DeviceQueue {
  readonly #lines = new Map<string, Place[]>();

  /** Takes the last place of the line; those behind wait until the waiter has entered and left, or given up. */
  keepPlace(key: string, waiter: Waiter): void {
    this.#placeOf(key, waiter);
  }

  /** Calls `turnCame` when all who came before have left; at once when nobody has. */
  enter(key: string, waiter: Waiter): void {
    const place = this.#placeOf(key, waiter);
    place.isReady = true;
    if (this.#lines.get(key)?.[0] === place) waiter.turnCame();
  }

  /** Gives up the turn, or the place in the line. Somebody who is not in the line changes nothing. */
  leave(key: string, waiter: Waiter): void {
    const line = this.#lines.get(key);
    const index = line?.findIndex((place) => place.waiter === waiter) ?? -1;
    if (!line || index < 0) return;
    line.splice(index, 1);
    const [next] = line;
    if (!next) this.#lines.delete(key);
    else if (index === 0 && next.isReady) next.waiter.turnCame();
  }

  #placeOf(key: string, waiter: Waiter): Place {
    const line = this.#lines.get(key) ?? [];
    this.#lines.set(key, line);
    const known = line.find((place) => place.waiter === waiter);
    if (known) return known;
    const place = { waiter, isReady: false };
    line.push(place);
    return place;
  }
}
