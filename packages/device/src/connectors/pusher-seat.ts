/** The device's seat in one Pusher room. */
import {
  type Capability,
  type Clock,
  type DeviceEnvelope,
  parseFromMesh,
  type RoomMember,
  type Timer,
  utf8Length,
} from "@leafmesh/protocol";
import type { Channel } from "pusher-js";
import { type DeviceRoom, type DeviceRoomEvent, JoinError, type QueueResult } from "../connector.ts";
import type { PusherAppPlace, PusherClass } from "./pusher.ts";
import { PusherOutbox } from "./pusher-outbox.ts";
import type { Vouching } from "./pusher-vouching.ts";
import { SeatCore } from "./seat-core.ts";

export interface PusherPlace {
  /** The app's key. */
  readonly app: string;
  readonly place: PusherAppPlace;
  readonly channel: string;
}

export interface PusherSeatDependencies {
  readonly Client: PusherClass;
  readonly vouching: Vouching;
  readonly clock: Clock;
}

/** Pusher takes 10 kB, with what is around the envelope. */
const MAX_ENVELOPE_BYTES = 9_900;
const MAX_WAITING_FRAMES = 32;
/** A link that was down for so long is given up. */
const LOST_AFTER_MS = 60_000;
const CLIENT_EVENTS_OFF =
  "client events are off in the Pusher app, so the device cannot answer: the operator turns them on in App Settings";

export class PusherSeat implements DeviceRoom {
  readonly maxEnvelopeBytes = MAX_ENVELOPE_BYTES;
  readonly #place: PusherPlace;
  readonly #vouching: Vouching;
  readonly #clock: Clock;
  /** The mesh signs for one seat of those that hold the ring. */
  readonly #seat = crypto.randomUUID();
  readonly #core: SeatCore;
  readonly #client: InstanceType<PusherClass>;
  readonly #outbox: PusherOutbox;
  readonly #life = new AbortController();
  readonly #onHeard = new Map<number, () => void>();
  #channel: Channel | undefined;
  #lost: Timer | undefined;

  constructor(place: PusherPlace, { Client, vouching, clock }: PusherSeatDependencies) {
    this.#place = place;
    this.#vouching = vouching;
    this.#clock = clock;
    this.#client = new Client(place.app, {
      ...place.place,
      enabledTransports: ["ws"],
      channelAuthorization: {
        customHandler: ({ socketId }, callback) =>
          void this.#vouch(socketId).then((voucher) => {
            // For a connection that is gone there is nothing to say: the next one asks again.
            if (voucher && socketId === this.#client.connection.socket_id) callback(null, voucher);
          }),
      },
    });
    this.#core = new SeatCore({ clock, disconnect: () => this.#disconnect(), toJoinError });
    this.#outbox = new PusherOutbox({
      clock,
      put: (number, message) => this.#channel?.trigger("client-up", { number, ...message }) === true,
    });
    this.#client.connection.bind("state_change", ({ current }: { readonly current: string }) => this.#moved(current));
    this.#client.connection.bind("error", (reported: unknown) => this.#told(reported));
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#core.events;
  }

  /** Resolves once the mesh has said that it heard the device. Throws {@link JoinError}. */
  async enter(capabilities: readonly Capability[] | undefined, signal: AbortSignal): Promise<void> {
    const hello: RoomMember = { v: 1, ...(capabilities ? { capabilities: [...capabilities] } : {}) };
    await this.#core.enter(signal, async () => {
      const channel = this.#client.subscribe(this.#place.channel);
      this.#channel = channel;
      channel.bind("pusher:subscription_succeeded", () => this.#seated());
      channel.bind("down", (data: unknown) => this.#heard(data));
      channel.bind("ack", (data: unknown) => this.#acknowledged(data));
      const number = this.#core.nextNumber();
      await new Promise<void>((resolve) => {
        this.#onHeard.set(number, resolve);
        this.#outbox.add(number, { hello });
      });
    });
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#core.isOver) return "ended";
    if (utf8Length(JSON.stringify(envelope)) > this.maxEnvelopeBytes) return "too_large";
    const isBusy = !this.#core.isSeated || this.#outbox.size >= MAX_WAITING_FRAMES;
    if (envelope.type === "progress" && isBusy) return "dropped";
    this.#outbox.add(this.#core.nextNumber(), { envelope });
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    return this.#core.acked(signal);
  }

  /** Pusher tells of a leave and of a loss alike: the goodbye tells them apart. */
  leave(): Promise<void> {
    return this.#core.leave(async () => {
      this.#channel?.trigger("client-bye", {});
      await this.#roundTrip();
    });
  }

  async #vouch(socketId: string): Promise<Awaited<ReturnType<Vouching["vouch"]>> | undefined> {
    try {
      return await this.#vouching.vouch(socketId, this.#seat, this.#life.signal);
    } catch (error) {
      const { kind, message } = toJoinError(error);
      if (!this.#life.signal.aborted) this.#core.end("refused", kind, message);
      return undefined;
    }
  }

  /** What was sent before has reached Pusher then; its client still holds it when it is told to disconnect. */
  #roundTrip(): Promise<void> {
    return new Promise((resolve) => {
      this.#client.connection.bind("message", ({ event }: { readonly event?: unknown }) => {
        if (event === "pusher:pong") resolve();
      });
      this.#client.send_event("pusher:ping", {});
    });
  }

  #seated(): void {
    this.#lost?.cancel();
    this.#core.back();
    this.#outbox.open();
  }

  #heard(data: unknown): void {
    const { to, envelope } = fieldsOf(data);
    const parsed = parseFromMesh(JSON.stringify(envelope) ?? "");
    if (parsed === undefined) return;
    if (parsed.type === "closed") this.#core.closedByMesh(parsed);
    // Pusher keeps the last event for who comes back, who may have had it.
    else if (to === this.#seat && this.#core.isNew(`${parsed.type} ${parsed.id}`)) this.#core.hand(parsed);
  }

  #acknowledged(data: unknown): void {
    const { to, numbers } = fieldsOf(data);
    if (to !== this.#seat || !Array.isArray(numbers)) return;
    for (const number of numbers) {
      if (typeof number !== "number") continue;
      this.#outbox.heard(number);
      this.#core.acknowledge(number);
      this.#onHeard.get(number)?.();
      this.#onHeard.delete(number);
    }
  }

  #moved(current: string): void {
    if (current === "connected") return;
    this.#outbox.pause();
    if (!this.#core.isSeated) return;
    this.#core.away();
    const end = (): void => this.#core.end("lost", "unreachable", "the link was down for too long");
    this.#lost = this.#clock.schedule(LOST_AFTER_MS, end);
  }

  #told(reported: unknown): void {
    const { code, message } = faultOf(reported);
    if (/client events?/i.test(message) && /enabl/i.test(message)) {
      this.#core.end("refused", "unsupported", CLIENT_EVENTS_OFF);
      // Pusher's client does not try again after these.
    } else if (code >= 4000 && code < 4100) {
      this.#core.end("refused", "unsupported", `Pusher refused the device (code ${code})`);
    }
  }

  /** Pusher's library remembers every client that it made. */
  #disconnect(): void {
    this.#life.abort();
    this.#outbox.pause();
    this.#lost?.cancel();
    this.#client.unbind_all();
    this.#client.disconnect();
    const { instances } = this.#client.constructor as PusherClass;
    const index = instances.indexOf(this.#client);
    if (index !== -1) instances.splice(index, 1);
  }
}

function fieldsOf(data: unknown): { readonly to?: unknown; readonly envelope?: unknown; readonly numbers?: unknown } {
  return typeof data === "object" && data !== null ? data : {};
}

/** In either of the shapes that Pusher's client has for it. */
function faultOf(reported: unknown): { readonly code: number; readonly message: string } {
  const { type, error, data } = (typeof reported === "object" && reported !== null ? reported : {}) as {
    readonly type?: unknown;
    readonly error?: unknown;
    readonly data?: { readonly code?: unknown; readonly message?: unknown } | null;
  };
  if (type === "WebSocketError") return faultOf(error);
  const { code, message } = (type === "PusherError" ? data : undefined) ?? {};
  return { code: typeof code === "number" ? code : 0, message: typeof message === "string" ? message : "" };
}

function toJoinError(error: unknown): JoinError {
  return error instanceof JoinError ? error : new JoinError("unreachable", "Pusher was not reached");
}
