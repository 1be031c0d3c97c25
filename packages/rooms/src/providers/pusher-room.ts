/** The mesh's side of one room over Pusher. */
import {
  type Clock,
  type JoinInfo,
  MAX_ENVELOPE_BYTES,
  type MeshEnvelope,
  type NewId,
  parseFromDevice,
  parseRoomMember,
  type RoomClosed,
  type RoomMember,
  type TaskEnvelope,
  utf8Length,
} from "@leafmesh/protocol";
import { type OpenRoom, type Room, type RoomCallbacks, RoomError, type RoomEvent, type Sent } from "../contract.ts";
import { briefly } from "../patience.ts";
import { RoomFeed } from "../room-feed.ts";
import type { PusherOptions } from "./pusher.ts";
import type { Triggered } from "./pusher-api.ts";
import { PusherDoor, seatOf } from "./pusher-door.ts";
import type { PusherLink, PusherListener } from "./pusher-link.ts";

/** Pusher has waited before it says that a device is gone. */
export const AWAY_GRACE_MS = 10_000;
/** "10 kB" of data. https://pusher.com/docs/channels/library_auth_reference/rest-api/#post-event-trigger-an-event */
const MAX_DATA_BYTES = 10_000;
/** Who it is for, and the braces. */
const ADDRESS_BYTES = 128;
export const MAX_TASK_BYTES = MAX_DATA_BYTES - ADDRESS_BYTES;
const MAX_REMEMBERED = 256;

export interface PusherRoomRequest extends OpenRoom {
  readonly record: PusherOptions;
  readonly graceMs: number;
}

export interface PusherRoomDependencies {
  readonly link: PusherLink;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly callbacks: RoomCallbacks | undefined;
}

/** Takes its seat before anybody can be rung. Throws {@link RoomError} and leaves nothing open. */
export async function openPusherRoom(
  request: PusherRoomRequest,
  { link, clock, newId, callbacks }: PusherRoomDependencies,
  signal: AbortSignal,
): Promise<Room> {
  const label = newId("room");
  const channel = `presence-cache-leafmesh-${label}`;
  const room = new PusherRoom({ label, channel, link, request, clock });
  const route = callbacks?.serve((asked) => room.door.answer(asked));
  if (!route) throw new RoomError("unavailable", "Devices cannot reach the mesh: set server.public_url.");
  const { own } = link.place;
  room.join = {
    provider: "pusher",
    ...(own === undefined ? {} : { url: own }),
    room: channel,
    token: room.door.token,
    params: {
      app: request.record.key,
      vouch: route.url,
      ...(own === undefined ? { cluster: request.record.cluster } : {}),
    },
  };
  room.onClose(route.close);
  try {
    room.onClose(await link.join(channel, room, signal));
    return room;
  } catch (error) {
    route.close();
    throw error;
  }
}

interface Facts {
  readonly label: string;
  readonly channel: string;
  readonly link: PusherLink;
  readonly request: PusherRoomRequest;
  readonly clock: Clock;
}

class PusherRoom implements Room, PusherListener {
  join: JoinInfo;
  readonly label: string;
  readonly maxTaskBytes = MAX_TASK_BYTES;
  readonly door: PusherDoor;
  readonly #facts: Facts;
  readonly #feed: RoomFeed;
  readonly #seen = new Set<number>();
  readonly #atClose: (() => void)[] = [];
  /** Aborted when the room is closed: nothing but goodbyes leaves after that. */
  readonly #life = new AbortController();
  /** Which of those that hold the ring is the device: the first that spoke. */
  #seat: string | undefined;
  #member: RoomMember | undefined;
  /** Numbers of the device's messages that it was not told of yet. */
  #unacknowledged: number[] = [];
  #isAcknowledging = false;
  #closing: Promise<void> | undefined;

  constructor(facts: Facts) {
    const { label, channel, request, clock } = facts;
    this.#facts = facts;
    this.label = label;
    this.join = { provider: "pusher", room: channel };
    this.#feed = new RoomFeed({ clock, graceMs: request.graceMs });
    const { record, joinWithinMs, lifetimeMs } = request;
    const refused = (): void => this.#feed.heard({ type: "refused", reason: "not_allowed" });
    this.door = new PusherDoor({ record, channel, clock, joinWithinMs, lifetimeMs, refused });
  }

  get events(): AsyncIterable<RoomEvent> {
    return this.#feed.events;
  }

  onClose(work: () => void): void {
    this.#atClose.push(work);
  }

  async send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent> {
    if (this.#feed.taskLeft) throw new Error("a room takes one task");
    const bytes = utf8Length(JSON.stringify(task));
    if (bytes > this.maxTaskBytes) {
      const sentence = `The task has ${bytes} bytes, the room takes ${this.maxTaskBytes}.`;
      return { status: "not_handed", error: new RoomError("too_big", sentence, { code: "task_too_large" }) };
    }
    // Pusher takes an event for a channel in which nobody is left.
    const { obstacle } = this.#feed;
    if (obstacle !== undefined) return { status: "not_handed", error: new RoomError("unavailable", obstacle) };
    if (!this.#facts.link.isConnected || signal.aborted) {
      const error = new RoomError("unavailable", "The mesh's own connection to Pusher is down.");
      return { status: "not_handed", error };
    }
    this.#feed.taskIsLeaving();
    const sent = await this.#tell({ envelope: task }, signal);
    if (sent.status !== "refused") return { status: "handed" };
    this.#feed.taskStayed();
    return { status: "not_handed", error: sent.error };
  }

  async cancel(askId: string, reason: string): Promise<void> {
    const envelope = { type: "cancel", id: askId, reason: reason.slice(0, 200) } as const;
    await this.#farewell({ envelope });
  }

  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  /** The mesh signs for nobody any more; who is there is told. */
  async #close(reason: string): Promise<void> {
    const hasFailed = this.#feed.isOver;
    this.#feed.close();
    this.#life.abort();
    for (const work of this.#atClose) work();
    if (!hasFailed) await this.#farewell({ envelope: { type: "closed", reason: reason.slice(0, 200) } });
  }

  async #farewell(data: { readonly envelope: MeshEnvelope | RoomClosed }): Promise<void> {
    const patience = new AbortController();
    await briefly(this.#facts.clock, this.#tell(data, patience.signal));
    patience.abort();
  }

  #tell(data: { readonly envelope: MeshEnvelope | RoomClosed }, signal: AbortSignal): Promise<Triggered> {
    return this.#trigger("down", data.envelope.type === "closed" ? data : { to: this.#seat, ...data }, signal);
  }

  #trigger(name: string, data: object, signal: AbortSignal): Promise<Triggered> {
    const { link, channel } = this.#facts;
    return link.api.trigger({ channel, name, data }, signal);
  }

  // ── What Pusher tells ───────────────────────────────────────────────────────────────────────────────────────────

  refused(error: RoomError): void {
    this.#feed.fail(error);
  }

  /** After a broken connection of the mesh: what happened meanwhile is seen by who is there. */
  seated(userIds: readonly string[]): void {
    if (this.#member === undefined) return;
    if (userIds.some((id) => seatOf(id) === this.#seat)) this.#feed.here(undefined);
    else this.#feed.lost();
  }

  memberAdded(userId: string): void {
    if (this.#member !== undefined && seatOf(userId) === this.#seat) this.#feed.here(undefined);
  }

  memberRemoved(userId: string): void {
    if (this.#member !== undefined && seatOf(userId) === this.#seat) this.#feed.lost();
  }

  clientEvent(name: "client-up" | "client-bye", data: unknown, userId: string | undefined): void {
    const seat = seatOf(userId);
    if (seat === undefined) this.#feed.drop("from another member");
    else if (this.#seat !== undefined && seat !== this.#seat) this.#feed.drop("a second device with the same ring");
    else if (name === "client-bye") this.#goodbye();
    else this.#heard(seat, data);
  }

  #goodbye(): void {
    if (this.#member !== undefined) this.#feed.left();
  }

  #heard(seat: string, data: unknown): void {
    const { number, hello, envelope: said } = fieldsOf(data);
    const member = parseRoomMember(hello);
    const text = JSON.stringify(said) ?? "";
    const isTooLarge = utf8Length(text) > MAX_ENVELOPE_BYTES;
    const envelope = isTooLarge ? undefined : parseFromDevice(text);
    if (number === undefined || (!member && !envelope)) {
      this.#feed.drop(isTooLarge ? "too large" : "not an envelope", isTooLarge);
    } else if (member) void this.#enter(seat, member, number);
    else if (envelope && this.#member) {
      if (this.#isNew(number)) this.#feed.heard(envelope);
      this.#acknowledge(number);
    } else this.#feed.drop("before the device's first message");
  }

  /**
   * The device is in once it was told so: then both ways are known to work, and this event is behind the task's, which
   * Pusher keeps for who comes back.
   */
  async #enter(seat: string, member: RoomMember, number: number): Promise<void> {
    this.#seat = seat;
    this.door.take(seat);
    if (this.#member !== undefined) {
      this.#acknowledge(number);
      return;
    }
    const told = await this.#trigger("ack", { to: seat, numbers: [number] }, this.#life.signal);
    if (told.status === "refused") this.#feed.fail(told.error);
    if (told.status !== "taken" || this.#member !== undefined) return;
    this.#member = member;
    this.#feed.here(member.capabilities);
  }

  /** A message that was not heard of comes again. */
  #isNew(number: number): boolean {
    if (this.#seen.has(number)) return false;
    if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(number);
    return true;
  }

  #acknowledge(number: number): void {
    this.#unacknowledged.push(number);
    if (!this.#isAcknowledging) void this.#acknowledgeAll();
  }

  /** Those that come while one event is under way share the next. Never rejects. */
  async #acknowledgeAll(): Promise<void> {
    this.#isAcknowledging = true;
    while (this.#unacknowledged.length > 0 && !this.#life.signal.aborted) {
      const numbers = this.#unacknowledged.splice(0, MAX_REMEMBERED);
      await this.#trigger("ack", { to: this.#seat, numbers }, this.#life.signal);
    }
    this.#isAcknowledging = false;
  }
}

interface FromDevice {
  readonly number: number | undefined;
  readonly hello: unknown;
  readonly envelope: unknown;
}

function fieldsOf(data: unknown): FromDevice {
  const { number, hello, envelope } = (typeof data === "object" && data !== null ? data : {}) as {
    readonly [field in keyof FromDevice]?: unknown;
  };
  return { number: typeof number === "number" ? number : undefined, hello, envelope };
}
