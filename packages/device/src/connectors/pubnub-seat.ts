/** The device's seat in one PubNub room. */
import {
  type Capability,
  type Clock,
  type DeviceEnvelope,
  parseFromMesh,
  type RoomMember,
  utf8Length,
} from "@leafmesh/protocol";
import type PubNub from "pubnub";
import { type DeviceRoom, type DeviceRoomEvent, JoinError, type QueueResult } from "../connector.ts";
import { SeatCore } from "./seat-core.ts";

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
const MAX_WAITING_FRAMES = 32;
const RETRY_AFTER_MS = 1_000;
/** What could not be sent for so long is not sent any more. */
const LOST_AFTER_MS = 60_000;

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
  readonly #core: SeatCore;
  #waiting: Frame[] = [];
  #connected: (() => void) | undefined;
  #unsubscribed: (() => void) | undefined;
  #isSending = false;

  constructor(place: PubNubPlace, client: PubNub, clock: Clock) {
    this.#place = place;
    this.#client = client;
    this.#clock = clock;
    this.#core = new SeatCore({ clock, disconnect: () => client.destroy(), toJoinError });
    client.addListener({
      message: (event) => this.#heard(event),
      status: (event) => this.#told(event),
    });
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#core.events;
  }

  /** Resolves once PubNub has taken the device's word that it is there. Throws {@link JoinError}. */
  async enter(capabilities: readonly Capability[] | undefined, signal: AbortSignal): Promise<void> {
    const hello: RoomMember = { v: 1, ...(capabilities ? { capabilities: [...capabilities] } : {}) };
    await this.#core.enter(signal, async () => {
      await new Promise<void>((resolve) => {
        this.#connected = resolve;
        this.#client.subscribe({ channels: [`${this.#place.room}.down`], timetoken: this.#place.since });
      });
      await this.#publish({ hello });
    });
  }

  /** Says that the person did not allow it, and is gone. Throws {@link JoinError}. */
  async refuse(signal: AbortSignal): Promise<void> {
    const envelope = { type: "refused", reason: "not_allowed" } as const;
    await this.#core.visit(signal, () => this.#publish({ number: 1, envelope }));
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#core.isOver) return "ended";
    if (utf8Length(JSON.stringify(envelope)) > this.maxEnvelopeBytes) return "too_large";
    const isBusy = !this.#core.isSeated || this.#waiting.length >= MAX_WAITING_FRAMES;
    if (envelope.type === "progress" && isBusy) return "dropped";
    this.#waiting.push({ number: this.#core.nextNumber(), envelope });
    void this.#flush();
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    return this.#core.acked(signal);
  }

  /** Unsubscribing tells PubNub, and PubNub the mesh. */
  leave(): Promise<void> {
    return this.#core.leave(
      () =>
        new Promise<void>((resolve) => {
          this.#unsubscribed = resolve;
          this.#client.unsubscribe({ channels: [`${this.#place.room}.down`] });
        }),
    );
  }

  /** One after the other, so that they arrive in order. Never rejects. */
  async #flush(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    const sinceMs = this.#clock.monotonicMs();
    let failedSinceMs = sinceMs;
    for (let frame = this.#waiting[0]; frame && !this.#core.isOver; frame = this.#waiting[0]) {
      try {
        await this.#publish(frame);
        this.#waiting.shift();
        failedSinceMs = this.#clock.monotonicMs();
        this.#core.back();
        this.#core.acknowledge(frame.number);
      } catch (error) {
        if (isRefusal(error)) this.#core.end("refused", "over", "PubNub does not let the device send any more");
        else if (this.#clock.monotonicMs() - failedSinceMs > LOST_AFTER_MS) {
          this.#core.end("lost", "unreachable", "the link was down for too long");
        } else {
          this.#core.away();
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

  #heard({ publisher, message, timetoken }: PubNub.Subscription.Message): void {
    const { to, envelope } = (typeof message === "object" && message !== null ? message : {}) as {
      readonly to?: unknown;
      readonly envelope?: unknown;
    };
    if (publisher !== this.#place.mesh) return;
    const parsed = parseFromMesh(JSON.stringify(envelope) ?? "");
    if (parsed === undefined) return;
    if (parsed.type === "closed") this.#core.closedByMesh(parsed);
    else if (to === this.#seat && this.#core.isNew(timetoken)) this.#core.hand(parsed);
  }

  #told({ category, operation }: PubNub.Status | PubNub.StatusEvent): void {
    if (operation === "PNUnsubscribeOperation") this.#unsubscribed?.();
    if (category === "PNConnectedCategory") this.#connected?.();
    // Its client repeats what may pass: this is a refusal.
    if (category === "PNConnectionErrorCategory" || category === "PNDisconnectedUnexpectedlyCategory") {
      this.#core.end("refused", "over", "PubNub does not let the device listen: its token is over");
    }
  }
}

function isRefusal(error: unknown): boolean {
  const statusCode = statusCodeOf(error);
  return statusCode >= 400 && statusCode < 500 && statusCode !== 429;
}

function toJoinError(error: unknown): JoinError {
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
