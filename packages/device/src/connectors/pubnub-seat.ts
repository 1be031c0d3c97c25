/** The device's seat in one PubNub room. */
import {
  type Capability,
  type Clock,
  type DeviceEnvelope,
  parseFromMesh,
  type RoomMember,
  type Timer,
  utf8Length,
} from "@leafmesh/protocol";
import type PubNub from "pubnub";
import {
  type DeviceRoom,
  type DeviceRoomEvent,
  JoinError,
  type JoinErrorKind,
  type QueueResult,
  type RoomEnd,
} from "../connector.ts";
import { createEventQueue } from "../event-queue.ts";

export interface PubNubPlace {
  /** What the names of the two channels begin with. */
  readonly room: string;
  /** The mesh's user id. */
  readonly mesh: string;
  /** Timetoken of the room's opening: from there on nothing is missed. */
  readonly since: string;
}

/** PubNub takes about 32 KiB, with what is around the envelope. https://www.pubnub.com/docs/general/resources/limits */
const MAX_ENVELOPE_BYTES = 29 * 1024;
const MAX_WAITING_EVENTS = 64;
const MAX_WAITING_FRAMES = 32;
const MAX_REMEMBERED = 256;
const RETRY_AFTER_MS = 1_000;
/** What could not be sent for so long is not sent any more. */
const LOST_AFTER_MS = 60_000;
/** No room lives longer. */
const LONGEST_LIFE_MS = 900_000;
const LEAVE_WITHIN_MS = 1_500;

interface Frame {
  readonly number: number;
  readonly envelope: DeviceEnvelope;
}

export class PubNubSeat implements DeviceRoom {
  readonly maxEnvelopeBytes = MAX_ENVELOPE_BYTES;
  readonly #place: PubNubPlace;
  readonly #client: PubNub;
  readonly #clock: Clock;
  /** Others may hold the ring as well: a task is for the seat that the mesh saw first. */
  readonly #seat = crypto.randomUUID();
  readonly #events = createEventQueue<DeviceRoomEvent>(MAX_WAITING_EVENTS);
  readonly #waiters = new Set<() => void>();
  readonly #seen = new Set<string>();
  readonly #life: Timer;
  #waiting: Frame[] = [];
  #phase: "joining" | "seated" | "away" | "over" = "joining";
  #joining: ((error: JoinError) => void) | undefined;
  #connected: (() => void) | undefined;
  #unsubscribed: (() => void) | undefined;
  #sent = 0;
  #acknowledged = 0;
  #isSending = false;

  constructor(place: PubNubPlace, client: PubNub, clock: Clock) {
    this.#place = place;
    this.#client = client;
    this.#clock = clock;
    this.#life = clock.schedule(LONGEST_LIFE_MS, () => this.#end("expired", "over", "the room's time is over"));
    client.addListener({
      message: (event) => this.#heard(event),
      status: (event) => this.#told(event),
    });
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#events;
  }

  /** Resolves once PubNub has taken the device's word that it is there. Throws {@link JoinError}. */
  async enter(capabilities: readonly Capability[] | undefined, signal: AbortSignal): Promise<void> {
    const hello: RoomMember = { v: 1, ...(capabilities ? { capabilities: [...capabilities] } : {}) };
    await this.#attempt(signal, async () => {
      await new Promise<void>((resolve) => {
        this.#connected = resolve;
        this.#client.subscribe({ channels: [`${this.#place.room}.down`], timetoken: this.#place.since });
      });
      await this.#publish({ hello });
    });
    this.#phase = "seated";
  }

  /** Says that the person did not allow it, and is gone. Throws {@link JoinError}. */
  async refuse(signal: AbortSignal): Promise<void> {
    const envelope = { type: "refused", reason: "not_allowed" } as const;
    await this.#attempt(signal, () => this.#publish({ number: 1, envelope }));
    this.#finish();
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#phase === "over") return "ended";
    if (utf8Length(JSON.stringify(envelope)) > this.maxEnvelopeBytes) return "too_large";
    const isBusy = this.#phase !== "seated" || this.#waiting.length >= MAX_WAITING_FRAMES;
    if (envelope.type === "progress" && isBusy) return "dropped";
    this.#waiting.push({ number: ++this.#sent, envelope });
    void this.#flush();
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    const last = this.#sent;
    return new Promise((resolve) => {
      const look = (): void => {
        const done = this.#acknowledged >= last;
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

  /** Unsubscribing tells PubNub, and PubNub the mesh. */
  async leave(): Promise<void> {
    if (this.#phase === "over") return;
    this.#phase = "over";
    await new Promise<void>((resolve) => {
      const timer = this.#clock.schedule(LEAVE_WITHIN_MS, resolve);
      this.#unsubscribed = () => {
        timer.cancel();
        resolve();
      };
      this.#client.unsubscribe({ channels: [`${this.#place.room}.down`] });
    });
    this.#finish();
  }

  /** One after the other, so that they arrive in order. Never rejects. */
  async #flush(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    const sinceMs = this.#clock.monotonicMs();
    let failedSinceMs = sinceMs;
    for (let frame = this.#waiting[0]; frame && this.#phase !== "over"; frame = this.#waiting[0]) {
      try {
        await this.#publish(frame);
        this.#waiting.shift();
        this.#acknowledged = frame.number;
        failedSinceMs = this.#clock.monotonicMs();
        this.#back();
        this.#wake();
      } catch (error) {
        if (isRefusal(error)) this.#end("refused", "over", "PubNub does not let the device send any more");
        else if (this.#clock.monotonicMs() - failedSinceMs > LOST_AFTER_MS) {
          this.#end("lost", "unreachable", "the link was down for too long");
        } else {
          this.#away();
          await new Promise<void>((resolve) => void this.#clock.schedule(RETRY_AFTER_MS, resolve));
        }
      }
    }
    this.#isSending = false;
  }

  async #publish(message: {
    readonly hello?: RoomMember;
    readonly number?: number;
    readonly envelope?: DeviceEnvelope;
  }): Promise<void> {
    const channel = `${this.#place.room}.up`;
    const body = JSON.parse(JSON.stringify({ ...message, seat: this.#seat }));
    await this.#client.publish({ channel, message: body, sendByPost: true, storeInHistory: false });
  }

  /** One try that ends with the signal, and with PubNub refusing the device. */
  async #attempt(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        const giveUp = (): void => reject(new JoinError("unreachable", "The room was not reached in time"));
        this.#joining = reject;
        if (signal.aborted) return giveUp();
        signal.addEventListener("abort", giveUp, { once: true });
        work()
          .then(resolve, (error: unknown) => reject(joinError(error)))
          .finally(() => signal.removeEventListener("abort", giveUp));
      });
    } catch (error) {
      this.#finish();
      throw error;
    } finally {
      this.#joining = undefined;
    }
  }

  #heard({ publisher, message, timetoken }: PubNub.Subscription.Message): void {
    const { to, envelope } = (typeof message === "object" && message !== null ? message : {}) as {
      readonly to?: unknown;
      readonly envelope?: unknown;
    };
    if (publisher !== this.#place.mesh) return;
    const parsed = parseFromMesh(JSON.stringify(envelope) ?? "");
    if (parsed === undefined) return;
    if (parsed.type === "closed") {
      this.#end("closed", "over", `the mesh closed the room: ${parsed.reason}`);
      return;
    }
    if (to !== this.#seat || this.#seen.has(timetoken)) return;
    if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(timetoken);
    if (!this.#events.push({ type: "envelope", envelope: parsed })) {
      this.#end("protocol", "unsupported", "more events than the device could read");
    }
  }

  #told({ category, operation }: PubNub.Status | PubNub.StatusEvent): void {
    if (operation === "PNUnsubscribeOperation") this.#unsubscribed?.();
    if (category === "PNConnectedCategory") this.#connected?.();
    // Its client repeats what may pass: this is a refusal.
    if (category === "PNConnectionErrorCategory" || category === "PNDisconnectedUnexpectedlyCategory") {
      this.#end("refused", "over", "PubNub does not let the device listen: its token is over");
    }
  }

  #away(): void {
    if (this.#phase !== "seated") return;
    this.#phase = "away";
    this.#events.push({ type: "away" });
  }

  #back(): void {
    if (this.#phase !== "away") return;
    this.#phase = "seated";
    this.#events.push({ type: "back" });
  }

  #end(reason: RoomEnd, kind: JoinErrorKind, detail: string): void {
    if (this.#joining) this.#joining(new JoinError(kind, `The room cannot be joined: ${detail}`));
    else if (this.#phase !== "over") this.#finish({ type: "closed", reason, detail });
  }

  #finish(last?: DeviceRoomEvent): void {
    this.#phase = "over";
    this.#life.cancel();
    this.#waiting = [];
    this.#events.end(last);
    this.#client.destroy();
    this.#wake();
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }
}

function isRefusal(error: unknown): boolean {
  const statusCode = statusCodeOf(error);
  return statusCode >= 400 && statusCode < 500 && statusCode !== 429;
}

function joinError(error: unknown): JoinError {
  const statusCode = statusCodeOf(error);
  if (statusCode === 403) return new JoinError("over", "PubNub says that the room's token is over (403)");
  return new JoinError(isRefusal(error) ? "unsupported" : "unreachable", `PubNub refused the device (${statusCode})`);
}

/** 0 when there was no answer. */
function statusCodeOf(error: unknown): number {
  const { status } = (typeof error === "object" && error !== null ? error : {}) as {
    readonly status?: { readonly statusCode?: unknown };
  };
  return typeof status?.statusCode === "number" ? status.statusCode : 0;
}
