/**
 * What the seats in rooms of hosted providers have in common: the phases of a stay, events in order, what was sent and
 * not yet heard of, and ends that come once. How things travel is the provider's part.
 */
import type { Clock, MeshEnvelope, RoomClosed, Timer } from "@leafmesh/protocol";
import { type DeviceRoomEvent, JoinError, type JoinErrorKind, type RoomEnd } from "../connector.ts";
import { createEventQueue } from "../event-queue.ts";

const MAX_WAITING_EVENTS = 64;
/** Ids of messages that came, to tell a repeat. */
const MAX_REMEMBERED = 256;
const FAREWELL_WITHIN_MS = 1_500;
/** No room lives longer. */
const LONGEST_LIFE_MS = 900_000;

export interface SeatCoreOptions {
  readonly clock: Clock;
  /** Lets the provider's connection go. Called once. */
  disconnect(): unknown;
  /** What became of a try that the provider refused. */
  toJoinError(error: unknown): JoinError;
}

export class SeatCore {
  readonly #options: SeatCoreOptions;
  readonly #events = createEventQueue<DeviceRoomEvent>(MAX_WAITING_EVENTS);
  readonly #waiters = new Set<() => void>();
  readonly #seen = new Set<string>();
  readonly #unacknowledged = new Set<number>();
  readonly #life: Timer;
  #phase: "joining" | "seated" | "away" | "over" = "joining";
  #joining: ((error: JoinError) => void) | undefined;
  #sent = 0;

  constructor(options: SeatCoreOptions) {
    this.#options = options;
    const end = (): void => this.end("expired", "over", "the room's time is over");
    this.#life = options.clock.schedule(LONGEST_LIFE_MS, end);
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#events;
  }

  get isSeated(): boolean {
    return this.#phase === "seated";
  }

  get isAway(): boolean {
    return this.#phase === "away";
  }

  get isOver(): boolean {
    return this.#phase === "over";
  }

  /** Takes the seat: one try that ends with the signal, and with the provider's refusal. Throws {@link JoinError}. */
  async enter(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    await this.#attempt(signal, work);
    this.#phase = "seated";
  }

  /** The same for a word that is all the device has to say. */
  async visit(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    await this.#attempt(signal, work);
    await this.finish();
  }

  /** Number of the next message, which counts as sent from now on. */
  nextNumber(): number {
    const number = ++this.#sent;
    this.#unacknowledged.add(number);
    return number;
  }

  acknowledge(number: number): void {
    this.#unacknowledged.delete(number);
    this.#wake();
  }

  /** See `DeviceRoom.acked`. */
  acked(signal: AbortSignal): Promise<boolean> {
    const last = this.#sent;
    return new Promise((resolve) => {
      const look = (): void => {
        const done = [...this.#unacknowledged].every((number) => number > last);
        if (!done && this.#phase !== "over" && !signal.aborted) return;
        this.#waiters.delete(look);
        signal.removeEventListener("abort", look);
        resolve(done);
      };
      this.#waiters.add(look);
      signal.addEventListener("abort", look);
      look();
    });
  }

  /** Whether a message with this id has not come before. */
  isNew(id: string): boolean {
    if (this.#seen.has(id)) return false;
    if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(id);
    return true;
  }

  hand(envelope: MeshEnvelope): void {
    if (this.#events.push({ type: "envelope", envelope })) return;
    this.end("protocol", "unsupported", "more events than the device could read");
  }

  closedByMesh({ reason }: RoomClosed): void {
    this.end("closed", "over", `the mesh closed the room: ${reason}`);
  }

  away(): void {
    if (this.#phase !== "seated") return;
    this.#phase = "away";
    this.#events.push({ type: "away" });
  }

  back(): void {
    if (this.#phase !== "away") return;
    this.#phase = "seated";
    this.#events.push({ type: "back" });
  }

  /** The room ended without the device leaving it; while it is still joining, the try has failed. */
  end(reason: RoomEnd, kind: JoinErrorKind, detail: string): void {
    if (this.#joining) this.#joining(new JoinError(kind, `The room cannot be joined: ${detail}`));
    else if (this.#phase !== "over") void this.finish({ type: "closed", reason, detail });
  }

  /** `sayGoodbye` is worth a moment, and nothing when the link is down. Never throws. */
  async leave(sayGoodbye: () => Promise<unknown>): Promise<void> {
    if (this.#phase === "over") return;
    const said = this.#phase === "seated" ? sayGoodbye() : Promise.resolve();
    this.#phase = "over";
    await this.#within(said);
    await this.finish();
  }

  /** Never rejects. */
  async finish(last?: DeviceRoomEvent): Promise<void> {
    this.#phase = "over";
    this.#life.cancel();
    this.#events.end(last);
    this.#wake();
    await this.#within(Promise.resolve(this.#options.disconnect()));
  }

  async #attempt(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        const giveUp = (): void => reject(new JoinError("unreachable", "The room was not reached in time"));
        this.#joining = reject;
        if (signal.aborted) return giveUp();
        signal.addEventListener("abort", giveUp, { once: true });
        const failed = (error: unknown): void =>
          reject(error instanceof JoinError ? error : this.#options.toJoinError(error));
        work()
          .then(resolve, failed)
          .finally(() => signal.removeEventListener("abort", giveUp));
      });
    } catch (error) {
      void this.finish();
      throw error;
    } finally {
      this.#joining = undefined;
    }
  }

  async #within(work: Promise<unknown>): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#options.clock.schedule(FAREWELL_WITHIN_MS, resolve);
      const end = (): void => {
        timer.cancel();
        resolve();
      };
      work.then(end, end);
    });
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }
}
