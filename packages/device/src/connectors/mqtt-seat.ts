/** The device's seat in one MQTT room: presence, last will, sealed messages, and coming back. */
import {
  type CreateClient,
  createInbox,
  createOpener,
  createSealer,
  FRAME_OVERHEAD_BYTES,
  type Incoming,
  type Link,
  MqttFailure,
  type MqttVersion,
  mayPass,
  type Opener,
  openNewestLink,
  packetBytes,
  type RoomKey,
  type RoomTopics,
  roomTopics,
  SESSION_SECONDS,
  SESSION_TAKEN_OVER,
} from "@leafmesh/mqtt/wire";
import {
  type Backoff,
  type Capability,
  type Clock,
  createBackoff,
  type DeviceEnvelope,
  type Logger,
  MAX_ENVELOPE_BYTES,
  parseFromMesh,
  type Timer,
  utf8Length,
} from "@leafmesh/protocol";
import { type DeviceRoom, type DeviceRoomEvent, JoinError, type QueueResult, type RoomEnd } from "../connector.ts";
import { createEventQueue } from "../event-queue.ts";
import type { BrokerAccess } from "./mqtt-broker.ts";
import { createMqttOutbox, type MqttOutbox } from "./mqtt-outbox.ts";
import { createPresence, type DevicePresence } from "./mqtt-presence.ts";

/** The mesh is back within its broker session, or not at all. */
export const REPLY_EXPIRY_SECONDS = SESSION_SECONDS;

const MAX_WAITING_EVENTS = 64;
const MAX_WAITING_FRAMES = 32;
/** A session that the broker has forgotten cannot be resumed. */
const LOST_AFTER_MS = SESSION_SECONDS * 1000;
const LEAVE_WITHIN_MS = 1_500;
/** How often, and how far apart, a device that the mesh does not hear tries again: its connection may be lost as well. */
const UNHEARD_TRIES = 4;
const UNHEARD_WAIT_MS = 1_000;

/** Where a room is, and with what to enter it. */
export interface RoomPlace {
  readonly access: BrokerAccess;
  readonly key: RoomKey;
  /** Topic under which the room's topics are. */
  readonly base: string;
  /** The same for every connection to this room, and known to nobody without the ring. */
  readonly clientId: string;
}

export interface MqttSeatDependencies {
  readonly createClient: CreateClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
}

/** What a takeover by another program with the same ring looks like where the broker does not say it. */
const REPLACED_AFTER_SHORT_STAYS = 3;
const SHORT_STAY_MS = 5_000;

export interface MqttSeatRequest extends RoomPlace {
  readonly capabilities: readonly Capability[] | undefined;
}

/** Resolves with the seat once the broker has told the mesh. Rejects with {@link JoinError}. */
export function takeMqttSeat(
  request: MqttSeatRequest,
  dependencies: MqttSeatDependencies,
  signal: AbortSignal,
): Promise<DeviceRoom> {
  return new Promise((resolve, reject) => {
    const seat = new Seat(request, dependencies, { joined: () => resolve(seat), failed: reject });
    seat.start(signal);
  });
}

interface JoinListener {
  joined(): void;
  failed(error: JoinError): void;
}

type Phase = "joining" | "seated" | "away" | "over";

class Seat implements DeviceRoom {
  readonly #request: MqttSeatRequest;
  readonly #dependencies: MqttSeatDependencies;
  readonly #joining: JoinListener;
  readonly #topics: RoomTopics;
  readonly #presence: DevicePresence;
  readonly #opener: Opener;
  readonly #events = createEventQueue<DeviceRoomEvent>(MAX_WAITING_EVENTS);
  readonly #inbox = createInbox<Incoming>(MAX_WAITING_EVENTS, (message) => this.#receive(message));
  readonly #outbox: MqttOutbox;
  readonly #backoff: Backoff;
  readonly #waiters = new Set<() => void>();
  /** Ends the attempts to connect. */
  readonly #ended = new AbortController();
  #phase: Phase = "joining";
  #version: MqttVersion = 5;
  #link: Link | undefined;
  #maxEnvelopeBytes = MAX_ENVELOPE_BYTES;
  #everConnected = false;
  /** The next try to connect. */
  #timer: Timer | undefined;
  /** The next try to be heard. */
  #resend: Timer | undefined;
  #awaySinceMs = 0;
  #seatedSinceMs = 0;
  /** Stays in a row that the broker ended soon and without a word. */
  #shortStays = 0;
  #unheard = 0;
  #lastFault = "no answer yet";

  constructor(request: MqttSeatRequest, dependencies: MqttSeatDependencies, joining: JoinListener) {
    this.#request = request;
    this.#dependencies = dependencies;
    this.#joining = joining;
    this.#topics = roomTopics(request.base);
    this.#presence = createPresence(request.key, this.#topics.presence);
    this.#opener = createOpener(request.key, this.#topics.down);
    this.#backoff = createBackoff({ firstMs: 250, longestMs: 5000, random: dependencies.random });
    this.#outbox = createMqttOutbox({
      sealer: createSealer(request.key, this.#topics.up),
      topic: this.#topics.up,
      expirySeconds: REPLY_EXPIRY_SECONDS,
      changed: () => {
        this.#unheard = 0;
        this.#wake();
      },
      unheard: () => this.#notHeard(),
      refused: (why) => this.#over("refused", why),
    });
  }

  get maxEnvelopeBytes(): number {
    return this.#maxEnvelopeBytes;
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#events;
  }

  start(signal: AbortSignal): void {
    const giveUp = (): void => {
      if (this.#phase !== "joining") return;
      this.#fail("unreachable", `The room was not reached in time: ${this.#lastFault}`);
    };
    if (signal.aborted) {
      giveUp();
      return;
    }
    signal.addEventListener("abort", giveUp, { once: true });
    void this.#connect();
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#phase === "over") return "ended";
    if (utf8Length(JSON.stringify(envelope)) > this.#maxEnvelopeBytes) return "too_large";
    const busy = this.#phase !== "seated" || this.#outbox.waiting >= MAX_WAITING_FRAMES;
    if (envelope.type === "progress" && busy) return "dropped";
    this.#outbox.add(envelope);
    if (this.#phase === "seated" && this.#link) void this.#outbox.flush(this.#link);
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    const target = this.#outbox.lastNumber;
    return new Promise((resolve) => {
      const look = (): void => {
        const done = this.#outbox.ackedNumber >= target;
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

  async leave(): Promise<void> {
    if (this.#phase === "over") return;
    const link = this.#phase === "seated" ? this.#link : undefined;
    this.#finish();
    if (!link) return;
    await new Promise<void>((resolve) => {
      const bound = this.#dependencies.clock.schedule(LEAVE_WITHIN_MS, resolve);
      void this.#presence.goodbye(link).finally(() => {
        bound.cancel();
        resolve();
      });
    });
  }

  // ── The link ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Never rejects. */
  async #connect(): Promise<void> {
    const { access, clientId, capabilities } = this.#request;
    const { createClient, clock } = this.#dependencies;
    let link: Link | undefined;
    try {
      const { joined, will } = await this.#presence.prepare(capabilities);
      link = await openNewestLink(
        {
          ...access,
          clientId,
          version: this.#version,
          clean: !this.#everConnected,
          sessionSeconds: SESSION_SECONDS,
          will,
        },
        { createClient, clock, onMessage: (message) => this.#hear(message) },
        this.#ended.signal,
      );
      this.#version = link.version;
      this.#everConnected = true;
      if (!link.resumed) await link.subscribe([this.#topics.down], this.#ended.signal);
      const published = await this.#presence.publish(link, joined);
      if (published.status !== "acknowledged") throw published.failure;
      if (this.#phase === "over")
        await (published.reached ? this.#presence.goodbye(link) : this.#presence.withdraw(link));
      else if (published.reached) this.#seated(link);
      else this.#absent(link);
    } catch (error) {
      link?.drop();
      this.#retry(error);
    }
  }

  #seated(link: Link): void {
    const cameBack = this.#phase === "away";
    const isFirst = this.#phase === "joining";
    this.#link = link;
    this.#phase = "seated";
    this.#seatedSinceMs = this.#dependencies.clock.monotonicMs();
    this.#unheard = 0;
    this.#backoff.reset();
    const overhead = packetBytes({ topic: this.#topics.up, payload: new Uint8Array(FRAME_OVERHEAD_BYTES) });
    if (link.maxPacketBytes !== undefined) {
      this.#maxEnvelopeBytes = Math.min(MAX_ENVELOPE_BYTES, link.maxPacketBytes - overhead);
    }
    void link.over.then((failure) => {
      if (this.#link === link && failure) this.#retry(failure);
    });
    void this.#outbox.flush(link);
    if (cameBack) this.#emit({ type: "back" });
    if (isFirst) this.#joining.joined();
  }

  /** The broker has the presence, and nobody is subscribed to it: the room is closed, or the mesh is coming back. */
  #absent(link: Link): void {
    this.#unheard += 1;
    if (this.#unheard < UNHEARD_TRIES) {
      link.drop();
      this.#retry(new MqttFailure("unavailable", "the mesh does not listen to this room"));
      return;
    }
    void this.#presence.withdraw(link);
    this.#gone("closed", "over", "the mesh does not listen to this room any more");
  }

  /** As with presence: something was sent, and the mesh is not there. */
  #notHeard(): void {
    if (this.#resend) return;
    this.#unheard += 1;
    if (this.#unheard >= UNHEARD_TRIES) {
      this.#over("closed", "the mesh does not listen to this room any more");
      return;
    }
    this.#resend = this.#dependencies.clock.schedule(UNHEARD_WAIT_MS, () => {
      this.#resend = undefined;
      if (this.#phase === "seated" && this.#link) void this.#outbox.flush(this.#link);
    });
  }

  /** The link is down, or a try to bring it up failed: waits and tries again while that can help. */
  #retry(error: unknown): void {
    if (this.#phase === "over") return;
    this.#link = undefined;
    const failure = error instanceof MqttFailure ? error : undefined;
    this.#lastFault = failure?.message ?? "the connection failed";
    if (this.#wasReplaced(failure)) {
      this.#gone("replaced", "seat_taken", `another program of this device is in the room: ${this.#lastFault}`);
      return;
    }
    if (!failure || !mayPass(failure)) {
      this.#gone("refused", "unsupported", this.#lastFault);
      return;
    }

    const { clock, logger } = this.#dependencies;
    if (this.#phase === "seated") {
      this.#phase = "away";
      this.#awaySinceMs = clock.monotonicMs();
      this.#emit({ type: "away" });
      logger.info("The link to the room is down.", { reason: this.#lastFault });
    }
    const waitMs = this.#backoff.nextMs();
    if (this.#phase === "away" && clock.monotonicMs() - this.#awaySinceMs + waitMs > LOST_AFTER_MS) {
      this.#over("lost", `the link could not be brought back: ${this.#lastFault}`);
      return;
    }
    this.#timer = clock.schedule(waitMs, () => void this.#connect());
  }

  /** Some brokers say that a session was taken over; Mosquitto 2.0 closes the connection, and does so again and again. */
  #wasReplaced(failure: MqttFailure | undefined): boolean {
    if (failure?.code === String(SESSION_TAKEN_OVER)) return true;
    if (this.#phase !== "seated") return false;
    const stayMs = this.#dependencies.clock.monotonicMs() - this.#seatedSinceMs;
    this.#shortStays = failure?.code === "closed" && stayMs < SHORT_STAY_MS ? this.#shortStays + 1 : 0;
    return this.#shortStays >= REPLACED_AFTER_SHORT_STAYS;
  }

  // ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────

  #hear(message: Incoming): void {
    if (message.topic !== this.#topics.down || message.payload.byteLength === 0) return;
    if (message.payload.byteLength > MAX_ENVELOPE_BYTES + FRAME_OVERHEAD_BYTES) return;
    // Whoever may write the topic can fill the inbox, so a full one does not end the room.
    this.#inbox.push(message);
  }

  /** Never rejects: the inbox relies on it. */
  async #receive({ payload, retained }: Incoming): Promise<void> {
    const opened = await this.#opener.open(payload);
    if (!opened.ok) return;
    const message = parseFromMesh(opened.text);
    if (message === undefined) return;
    if (message.type === "closed") this.#gone("closed", "over", `the mesh closed the room: ${message.reason}`);
    // A task that a broker has kept is somebody's mistake, and may be old.
    else if (!retained) this.#emit({ type: "envelope", envelope: message });
  }

  // ── Ends ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #emit(event: DeviceRoomEvent): void {
    if (!this.#events.push(event)) this.#over("protocol", "more events than the device could read");
  }

  #gone(reason: RoomEnd, kind: JoinError["kind"], detail: string): void {
    if (this.#phase === "joining") this.#fail(kind, `The room cannot be joined: ${detail}`);
    else this.#over(reason, detail);
  }

  #over(reason: RoomEnd, detail: string): void {
    if (this.#phase === "over") return;
    const link = this.#link;
    this.#finish({ type: "closed", reason, detail });
    // A mesh that has closed the room has cleared what is retained there, and is told nothing more.
    if (link) void (reason === "closed" ? link.end() : this.#presence.goodbye(link));
  }

  #fail(kind: JoinError["kind"], message: string): void {
    if (this.#phase === "over") return;
    this.#finish();
    this.#joining.failed(new JoinError(kind, message));
  }

  #finish(last?: DeviceRoomEvent): void {
    this.#phase = "over";
    this.#link = undefined;
    this.#timer?.cancel();
    this.#resend?.cancel();
    this.#inbox.close();
    this.#events.end(last);
    this.#ended.abort("the room is over");
    this.#wake();
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }
}
