/** The mesh's side of one room over Ably. */
import {
  type Clock,
  type JoinInfo,
  MAX_ENVELOPE_BYTES,
  type NewId,
  parseFromDevice,
  parseRoomMember,
  type TaskEnvelope,
  utf8Length,
} from "@leafmesh/protocol";
import type * as Ably from "ably";
import { type OpenRoom, type Room, RoomError, type RoomEvent, type Sent } from "../contract.ts";
import { briefly, untilAborted } from "../patience.ts";
import { RoomFeed } from "../room-feed.ts";
import { ablyRoomError, isCertainRefusal } from "./ably-errors.ts";
import { type AblyChannel, type AblyLinks, MESH_CLIENT_ID } from "./ably-link.ts";
import { type AblyKey, ROOM_RIGHTS, signAblyToken } from "./ably-token.ts";

/** Ably has waited before it says that a device is gone. */
export const AWAY_GRACE_MS = 10_000;

/** Ids of messages that came, to tell a repeat. */
const MAX_REMEMBERED = 256;

export interface AblyRoomRequest extends OpenRoom {
  readonly key: AblyKey;
  /** As the operator wrote it; the device goes there as well. */
  readonly endpoint: string | undefined;
  readonly graceMs: number;
  readonly maxTaskBytes: number;
}

export interface AblyRoomDependencies {
  readonly links: AblyLinks;
  readonly clock: Clock;
  readonly newId: NewId;
}

/** Listens before anybody can be rung. Throws {@link RoomError} and leaves nothing open. */
export async function openAblyRoom(
  request: AblyRoomRequest,
  { links, clock, newId }: AblyRoomDependencies,
  signal: AbortSignal,
): Promise<Room> {
  const label = newId("room");
  const name = `leafmesh:${label}`;
  const client = newId("lmd");
  const token = signAblyToken(request.key, {
    clientId: client,
    capability: { [name]: ROOM_RIGHTS },
    nowMs: clock.nowMs(),
    lifetimeMs: request.lifetimeMs,
  });
  const { endpoint } = request;
  const join: JoinInfo = {
    provider: "ably",
    ...(endpoint === undefined ? {} : { url: endpoint }),
    room: name,
    token,
    params: { client, mesh: MESH_CLIENT_ID },
  };
  const attached = await links.channel(name, signal);
  const room = new AblyRoom(request, { join, label, deviceClient: client, attached }, clock);
  try {
    await untilAborted(room.listen(), signal, "Ably");
    return room;
  } catch (error) {
    await room.close("not opened");
    throw error instanceof RoomError ? error : ablyRoomError(error);
  }
}

interface Facts {
  readonly join: JoinInfo;
  readonly label: string;
  readonly deviceClient: string;
  readonly attached: AblyChannel;
}

class AblyRoom implements Room {
  readonly join: JoinInfo;
  readonly label: string;
  readonly maxTaskBytes: number;
  readonly #clock: Clock;
  readonly #feed: RoomFeed;
  readonly #attached: AblyChannel;
  readonly #deviceClient: string;
  readonly #seen = new Set<string>();
  /** Which of the client's connections is the device: the first that came, until it is gone. */
  #connectionId: string | undefined;
  #closing: Promise<void> | undefined;

  constructor({ graceMs, maxTaskBytes }: AblyRoomRequest, facts: Facts, clock: Clock) {
    this.join = facts.join;
    this.label = facts.label;
    this.maxTaskBytes = maxTaskBytes;
    this.#clock = clock;
    this.#attached = facts.attached;
    this.#deviceClient = facts.deviceClient;
    this.#feed = new RoomFeed({ clock, graceMs });
  }

  get events(): AsyncIterable<RoomEvent> {
    return this.#feed.events;
  }

  /** Rejects with Ably's error. */
  async listen(): Promise<void> {
    const { channel } = this.#attached;
    await channel.subscribe((message) => this.#heard(message));
    await channel.presence.subscribe((member) => this.#moved(member));
    channel.on(["failed", "suspended", "detached"], ({ reason }) => {
      if (!this.#closing) this.#feed.fail(ablyRoomError(reason ?? {}));
    });
    await channel.attach();
  }

  async send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent> {
    if (this.#feed.taskLeft) throw new Error("a room takes one task");
    const text = JSON.stringify(task);
    const bytes = utf8Length(text);
    if (bytes > this.maxTaskBytes) {
      const sentence = `The task has ${bytes} bytes, the room takes ${this.maxTaskBytes}.`;
      return { status: "not_handed", error: new RoomError("too_big", sentence, { code: "task_too_large" }) };
    }
    const { obstacle } = this.#feed;
    if (obstacle !== undefined) return { status: "not_handed", error: new RoomError("unavailable", obstacle) };
    const { client, channel } = this.#attached;
    if (client.connection.state !== "connected" || channel.state !== "attached" || signal.aborted) {
      const error = new RoomError("unavailable", "The mesh's own connection to Ably is down.");
      return { status: "not_handed", error };
    }
    this.#feed.taskIsLeaving();
    try {
      const message = { id: `${task.id}:0`, name: "down", data: text, extras: this.#toDevice() };
      await untilAborted(channel.publish(message), signal, "Ably");
    } catch (error) {
      if (isCertainRefusal(error)) {
        this.#feed.taskStayed();
        return { status: "not_handed", error: ablyRoomError(error) };
      }
    }
    return { status: "handed" };
  }

  async cancel(askId: string, reason: string): Promise<void> {
    await this.#farewell({ type: "cancel", id: askId, reason: reason.slice(0, 200) }, this.#toDevice());
  }

  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  /** A token cannot be taken back; who comes late is told. */
  async #close(reason: string): Promise<void> {
    this.#feed.close();
    await this.#farewell({ type: "closed", reason: reason.slice(0, 200) });
    await briefly(this.#clock, this.#attached.release());
  }

  async #farewell(message: object, extras?: unknown): Promise<void> {
    const { client, channel } = this.#attached;
    if (client.connection.state !== "connected" || channel.state !== "attached") return;
    const published = channel.publish({ name: "down", data: JSON.stringify(message), ...(extras ? { extras } : {}) });
    await briefly(
      this.#clock,
      published.catch(() => {}),
    );
  }

  /** Whoever else holds the ring reads the channel as well; a device takes only what is addressed to its connection. */
  #toDevice(): { headers: { to: string } } {
    return { headers: { to: this.#connectionId ?? "" } };
  }

  #moved({ action, clientId, connectionId, data }: Ably.PresenceMessage): void {
    const member = parseRoomMember(data);
    if (clientId !== this.#deviceClient) this.#feed.drop("presence of another client");
    else if (action === "leave") this.#gone(connectionId, data);
    else if (!member) this.#feed.drop("not a presence message");
    else if (this.#connectionId !== undefined && connectionId !== this.#connectionId) {
      this.#feed.drop("a second connection with the same ring");
    } else {
      this.#connectionId = connectionId;
      this.#feed.here(member.capabilities);
    }
  }

  #gone(connectionId: string, data: unknown): void {
    if (connectionId !== this.#connectionId) return;
    this.#connectionId = undefined;
    if (isGoodbye(data)) this.#feed.left();
    else this.#feed.lost();
  }

  #heard({ id, name, clientId, data }: Ably.InboundMessage): void {
    if (clientId !== this.#deviceClient || name !== "up") {
      this.#feed.drop("from another client");
      return;
    }
    if (this.#seen.has(id)) return;
    if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(id);
    const text = typeof data === "string" ? data : "";
    const isTooLarge = utf8Length(text) > MAX_ENVELOPE_BYTES;
    const envelope = isTooLarge ? undefined : parseFromDevice(text);
    if (envelope) this.#feed.heard(envelope);
    else this.#feed.drop(isTooLarge ? "too large" : "not an envelope", isTooLarge);
  }
}

/** A device says goodbye with its leave; the service's own leave for a lost one repeats what the device entered with. */
function isGoodbye(data: unknown): boolean {
  return typeof data === "object" && data !== null && "goodbye" in data;
}
