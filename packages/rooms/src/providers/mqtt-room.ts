/** The mesh's side of one room over MQTT. */
import type { MqttConnection, Published, Subscription } from "@leafmesh/mqtt";
import {
  createSealer,
  FRAME_OVERHEAD_BYTES,
  importRoomKey,
  MqttFailure,
  newRoomKey,
  type Presence,
  packetBytes,
  type RoomKey,
  type RoomTopics,
  roomBase,
  roomTopics,
  type Sealer,
} from "@leafmesh/mqtt/wire";
import {
  type Clock,
  type JoinInfo,
  type Logger,
  MAX_ENVELOPE_BYTES,
  type NewId,
  type TaskEnvelope,
  utf8Length,
} from "@leafmesh/protocol";
import { type Room, RoomError, type RoomErrorKind, type RoomEvent, type Sent } from "../contract.ts";
import { RoomFeed } from "../room-feed.ts";
import { createRoomReceiver, type RoomReceiver } from "./mqtt-receiver.ts";

/** How long the mesh waits on for a device whose will has come; the broker has held the will back for 5 s by then. */
export const AWAY_GRACE_MS = 10_000;
/** 1.5 × keepalive, and the delay of the will. */
export const LOSS_SEEN_WITHIN_MS = 28_000;

/** A task that finds no connection waits for so long that it is back, and never longer. */
const RECONNECT_WAIT_MS = 2_000;
/** A goodbye or a cancel is worth so long and no longer. */
const FAREWELL_TIMEOUT_MS = 2_000;
const CANCEL_EXPIRY_SECONDS = 30;

const errorKinds = {
  credential: "bad_credential",
  identity: "bad_credential",
  quota: "plan_limit",
  rate: "rate",
  too_big: "too_big",
  bad_request: "mismatch",
  unsupported: "mismatch",
  unavailable: "unavailable",
  aborted: "unavailable",
} as const satisfies Record<MqttFailure["kind"], RoomErrorKind>;

export interface MqttRoomRequest {
  /** The broker, as the device reaches it. */
  readonly url: string;
  readonly prefix: string;
  readonly deviceId: string;
  /** A ring that comes after this finds a room that says it is closed, if the broker still knows. */
  readonly joinWithinMs: number;
  readonly graceMs: number;
}

export interface MqttRoomDependencies {
  readonly connection: MqttConnection;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: NewId;
}

/** Subscribes before anybody can be rung. Throws {@link RoomError} and leaves nothing open. */
export async function openMqttRoom(
  request: MqttRoomRequest,
  dependencies: MqttRoomDependencies,
  signal: AbortSignal,
): Promise<Room> {
  const label = dependencies.newId("room");
  const base = roomBase(request.prefix, label, request.deviceId);
  const topics = roomTopics(base);
  const keyText = newRoomKey();
  const key = await importRoomKey(keyText);
  const join: JoinInfo = {
    provider: "mqtt",
    url: request.url,
    room: label,
    params: { key: keyText, topic: base, client: randomHex() },
  };
  try {
    const { version, maxPacketBytes = Number.POSITIVE_INFINITY } = await dependencies.connection.ready(signal);
    const overhead = packetBytes({ topic: topics.down, payload: new Uint8Array(FRAME_OVERHEAD_BYTES) });
    const room = new MqttRoom(request, dependencies, {
      join,
      label,
      topics,
      key,
      expires: version === 5,
      maxTaskBytes: Math.min(MAX_ENVELOPE_BYTES, maxPacketBytes - overhead),
    });
    await room.listen(signal);
    return room;
  } catch (error) {
    throw error instanceof MqttFailure ? roomError(error) : error;
  }
}

/** Names the device's connection, so that a second one of the same ring takes the first one's place. */
function randomHex(): string {
  return [...crypto.getRandomValues(new Uint8Array(10))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

interface Facts {
  readonly join: JoinInfo;
  readonly label: string;
  readonly topics: RoomTopics;
  readonly key: RoomKey;
  /** Whether the broker forgets by itself what it was told to retain. */
  readonly expires: boolean;
  readonly maxTaskBytes: number;
}

class MqttRoom implements Room {
  readonly join: JoinInfo;
  readonly label: string;
  readonly maxTaskBytes: number;
  readonly #request: MqttRoomRequest;
  readonly #dependencies: MqttRoomDependencies;
  readonly #topics: RoomTopics;
  readonly #expires: boolean;
  readonly #sealer: Sealer;
  readonly #receiver: RoomReceiver;
  readonly #feed: RoomFeed;
  readonly #openedAtMs: number;
  #subscription: Subscription | undefined;
  #closing: Promise<void> | undefined;

  constructor(request: MqttRoomRequest, dependencies: MqttRoomDependencies, facts: Facts) {
    this.join = facts.join;
    this.label = facts.label;
    this.maxTaskBytes = facts.maxTaskBytes;
    this.#request = request;
    this.#dependencies = dependencies;
    this.#topics = facts.topics;
    this.#expires = facts.expires;
    this.#feed = new RoomFeed({ clock: dependencies.clock, graceMs: request.graceMs });
    this.#sealer = createSealer(facts.key, facts.topics.down);
    this.#receiver = createRoomReceiver(facts.key, facts.topics, {
      presence: (presence) => this.#moved(presence),
      envelope: (envelope) => this.#feed.heard(envelope),
      dropped: (why) => this.#feed.drop(why),
    });
    this.#openedAtMs = dependencies.clock.monotonicMs();
  }

  get events(): AsyncIterable<RoomEvent> {
    return this.#feed.events;
  }

  /** Throws what the connection throws. */
  async listen(signal: AbortSignal): Promise<void> {
    const { up, presence } = this.#topics;
    this.#subscription = await this.#dependencies.connection.subscribe(
      [up, presence],
      {
        message: (message) => this.#receiver.push(message),
        lost: (failure) => this.#feed.fail(roomError(failure)),
      },
      signal,
    );
  }

  async send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent> {
    if (this.#feed.taskLeft) throw new Error("a room takes one task");
    const text = JSON.stringify(task);
    const bytes = utf8Length(text);
    if (bytes > this.maxTaskBytes) {
      const sentence = `The task has ${bytes} bytes, the room takes ${this.maxTaskBytes}.`;
      return { status: "not_handed", error: new RoomError("too_big", sentence, { code: "task_too_large" }) };
    }
    const payload = await this.#sealer.seal(text);
    const unreachable = await this.#reconnected(signal);
    if (unreachable) return { status: "not_handed", error: roomError(unreachable) };
    // The broker would keep it for a device that the mesh has given up.
    const { obstacle } = this.#feed;
    if (obstacle !== undefined) return { status: "not_handed", error: new RoomError("unavailable", obstacle) };
    this.#feed.taskIsLeaving();
    const published = await this.#dependencies.connection.publishIfConnected(
      { topic: this.#topics.down, payload, expirySeconds: Math.max(1, Math.ceil(task.budget_ms / 1000)) },
      { signal },
    );
    const error = certainlyNotHanded(published);
    if (!error) return { status: "handed" };
    this.#feed.taskStayed();
    return { status: "not_handed", error };
  }

  async cancel(askId: string, reason: string): Promise<void> {
    await this.#farewell(
      { type: "cancel", id: askId, reason: reason.slice(0, 200) },
      { expirySeconds: CANCEL_EXPIRY_SECONDS },
    );
  }

  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  /** What the broker keeps of the room: nothing, but for as long as the ring lives the word that it is closed. */
  async #close(reason: string): Promise<void> {
    this.#receiver.close();
    this.#feed.close();
    const { connection, clock } = this.#dependencies;
    const ringLeftMs = this.#request.joinWithinMs - (clock.monotonicMs() - this.#openedAtMs);
    const retained =
      this.#expires && ringLeftMs > 0 ? { retain: true, expirySeconds: Math.ceil(ringLeftMs / 1000) } : {};
    await Promise.all([
      this.#farewell({ type: "closed", reason: reason.slice(0, 200) }, retained),
      connection.publishIfConnected(
        { topic: this.#topics.presence, payload: new Uint8Array(), retain: true },
        { timeoutMs: FAREWELL_TIMEOUT_MS },
      ),
    ]);
    await this.#subscription?.close();
  }

  async #farewell(message: object, more: { retain?: boolean; expirySeconds?: number }): Promise<void> {
    try {
      const payload = await this.#sealer.seal(JSON.stringify(message));
      await this.#dependencies.connection.publishIfConnected(
        { topic: this.#topics.down, payload, ...more },
        { timeoutMs: FAREWELL_TIMEOUT_MS },
      );
    } catch (error) {
      this.#dependencies.logger.error("A message to a device could not be sealed", { room: this.label, error });
    }
  }

  /** Waits a moment for a connection that is being brought back. The failure when it is not. */
  async #reconnected(signal: AbortSignal): Promise<MqttFailure | undefined> {
    if (this.#dependencies.connection.isOpen) return undefined;
    const moment = new AbortController();
    const end = (): void => moment.abort(signal.reason);
    const timer = this.#dependencies.clock.schedule(RECONNECT_WAIT_MS, end);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
    try {
      await this.#dependencies.connection.ready(moment.signal);
      return undefined;
    } catch (error) {
      if (error instanceof MqttFailure) return error;
      throw error;
    } finally {
      timer.cancel();
      signal.removeEventListener("abort", end);
    }
  }

  #moved(presence: Presence): void {
    if (presence.type === "joined") this.#feed.here(presence.capabilities);
    else if (presence.reason === "left") this.#feed.left();
    else this.#feed.lost();
  }
}

/** Everything that leaves a doubt is handed over. */
function certainlyNotHanded(published: Published): RoomError | undefined {
  switch (published.status) {
    case "acknowledged":
      // "The Server knows that there are no matching subscribers": nobody has it and nobody will (MQTT 5, 3.4.2.1).
      if (published.reached) return undefined;
      return new RoomError("unavailable", "The device is not connected to the room any more.", { code: "16" });
    case "unknown":
      return undefined;
    case "refused":
    case "not_sent":
      return roomError(published.failure);
    default:
      return published satisfies never;
  }
}

function roomError(failure: MqttFailure): RoomError {
  return new RoomError(errorKinds[failure.kind], failure.message, { code: failure.code, cause: failure });
}
