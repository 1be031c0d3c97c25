/** The mesh's side of one room over PubNub. */
import {
  type Clock,
  type JoinInfo,
  type MeshEnvelope,
  type NewId,
  parseFromDevice,
  parseRoomMember,
  type RoomClosed,
  type RoomMember,
  type TaskEnvelope,
  utf8Length,
} from "@leafmesh/protocol";
import type PubNub from "pubnub";
import { type OpenRoom, type Room, RoomError, type RoomEvent, type Sent } from "../contract.ts";
import { briefly, untilAborted } from "../patience.ts";
import { RoomFeed } from "../room-feed.ts";
import type { PubNubOptions } from "./pubnub.ts";
import { isCertainRefusal, pubnubRoomError } from "./pubnub-errors.ts";
import { MESH_USER_ID, type PubNubLink } from "./pubnub-link.ts";

/** PubNub has waited before it says that a device is gone. */
export const AWAY_GRACE_MS = 10_000;
/** PubNub takes about 32 KiB, with what is around the message. https://www.pubnub.com/docs/general/resources/limits */
const MAX_MESSAGE_BYTES = 30 * 1024;
/** Who it is for, and the quotes. */
const ADDRESS_BYTES = 512;
export const MAX_TASK_BYTES = MAX_MESSAGE_BYTES - ADDRESS_BYTES;

const MAX_REMEMBERED = 256;

export interface PubNubRoomRequest extends OpenRoom {
  readonly keys: PubNubOptions;
  readonly graceMs: number;
}

export interface PubNubRoomDependencies {
  readonly link: PubNubLink;
  readonly clock: Clock;
  readonly newId: NewId;
}

/** Listens before anybody can be rung. Throws {@link RoomError} and leaves nothing open. */
export async function openPubNubRoom(
  request: PubNubRoomRequest,
  { link, clock, newId }: PubNubRoomDependencies,
  signal: AbortSignal,
): Promise<Room> {
  const label = newId("room");
  const down = `leafmesh.${label}.down`;
  const up = `leafmesh.${label}.up`;
  const user = newId("lmd");
  const { publish_key, subscribe_key, origin } = request.keys;
  try {
    const client = await link.client();
    const granting = client.grantToken({
      ttl: Math.max(1, Math.ceil(request.lifetimeMs / 60_000)),
      authorized_uuid: user,
      resources: { channels: { [down]: { read: true }, [up]: { write: true } } },
    });
    const [token, { timetoken }] = await untilAborted(Promise.all([granting, client.time()]), signal, "PubNub");
    const join: JoinInfo = {
      provider: "pubnub",
      ...(origin === undefined ? {} : { url: origin }),
      room: `leafmesh.${label}`,
      token,
      params: { publish: publish_key, subscribe: subscribe_key, user, mesh: MESH_USER_ID, since: String(timetoken) },
    };
    const room = new PubNubRoom({ join, label, down, user, client, graceMs: request.graceMs }, clock);
    room.stop = await link.listen({ channel: up, presenceOf: down, timetoken: String(timetoken) }, room);
    return room;
  } catch (error) {
    throw error instanceof RoomError ? error : pubnubRoomError(error);
  }
}

interface Facts {
  readonly join: JoinInfo;
  readonly label: string;
  readonly down: string;
  readonly user: string;
  readonly client: PubNub;
  readonly graceMs: number;
}

class PubNubRoom implements Room {
  readonly join: JoinInfo;
  readonly label: string;
  readonly maxTaskBytes = MAX_TASK_BYTES;
  /** Ends listening. */
  stop: () => void = () => {};
  readonly #facts: Facts;
  readonly #clock: Clock;
  readonly #feed: RoomFeed;
  readonly #seen = new Set<string>();
  /** Which of those that hold the ring is the device: the first that came. */
  #seat: string | undefined;
  #closing: Promise<void> | undefined;

  constructor(facts: Facts, clock: Clock) {
    this.join = facts.join;
    this.label = facts.label;
    this.#facts = facts;
    this.#clock = clock;
    this.#feed = new RoomFeed({ clock, graceMs: facts.graceMs });
  }

  get events(): AsyncIterable<RoomEvent> {
    return this.#feed.events;
  }

  async send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent> {
    if (this.#feed.taskLeft) throw new Error("a room takes one task");
    const text = JSON.stringify(task);
    const bytes = utf8Length(text);
    if (bytes > this.maxTaskBytes) {
      const sentence = `The task has ${bytes} bytes, the room takes ${this.maxTaskBytes}.`;
      return { status: "not_handed", error: new RoomError("too_big", sentence, { code: "task_too_large" }) };
    }
    // PubNub takes a message for a channel on which nobody is left.
    const { obstacle } = this.#feed;
    if (obstacle !== undefined) return { status: "not_handed", error: new RoomError("unavailable", obstacle) };
    if (signal.aborted) {
      return { status: "not_handed", error: new RoomError("unavailable", "There was no time left to send the task.") };
    }
    this.#feed.taskIsLeaving();
    try {
      await untilAborted(this.#publish({ to: this.#seat ?? "", envelope: task }), signal, "PubNub");
    } catch (error) {
      if (isCertainRefusal(error)) {
        this.#feed.taskStayed();
        return { status: "not_handed", error: pubnubRoomError(error) };
      }
    }
    return { status: "handed" };
  }

  async cancel(askId: string, reason: string): Promise<void> {
    const envelope = { type: "cancel", id: askId, reason: reason.slice(0, 200) } as const;
    await briefly(this.#clock, this.#publish({ to: this.#seat ?? "", envelope }));
  }

  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  /** A keyset takes tokens back only when that was switched on; who comes late is told in any case. */
  async #close(reason: string): Promise<void> {
    this.#feed.close();
    this.stop();
    const { client, join } = this.#facts;
    const envelope = { type: "closed", reason: reason.slice(0, 200) } as const;
    await briefly(this.#clock, this.#publish({ envelope }));
    await briefly(this.#clock, client.revokeToken(join.token ?? ""));
  }

  #publish(message: { readonly to?: string; readonly envelope: MeshEnvelope | RoomClosed }): Promise<unknown> {
    const { client, down } = this.#facts;
    return client.publish({ channel: down, message: payloadOf(message), sendByPost: true, storeInHistory: false });
  }

  // ── What PubNub tells ───────────────────────────────────────────────────────────────────────────────────────────

  refused(error: RoomError): void {
    this.#feed.fail(error);
  }

  presence(event: PubNub.Subscription.Presence): void {
    if (!("uuid" in event) || event.uuid !== this.#facts.user || this.#seat === undefined) return;
    if (event.action === "leave") this.#feed.left();
    else if (event.action === "timeout") this.#feed.lost();
    else if (event.action === "join") this.#feed.here(undefined);
  }

  message({ publisher, message }: PubNub.Subscription.Message): void {
    const { hello, seat, number, envelope } = fieldsOf(message);
    const member = parseRoomMember(hello);
    if (publisher !== this.#facts.user) this.#feed.drop("from another client");
    else if (seat === undefined) this.#feed.drop("not an envelope");
    else if (member) this.#enter(seat, member);
    else if (this.#isNew(`${seat} ${number}`)) this.#heard(seat, envelope);
  }

  #enter(seat: string, { capabilities }: RoomMember): void {
    if (this.#seat !== undefined && this.#seat !== seat) {
      this.#feed.drop("a second device with the same ring");
      return;
    }
    this.#seat = seat;
    this.#feed.here(capabilities);
  }

  /** A device that heard nothing of a message sends it again, and a client that catches up brings it again. */
  #isNew(id: string): boolean {
    if (this.#seen.has(id)) return false;
    if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(id);
    return true;
  }

  #heard(seat: string, said: unknown): void {
    const envelope = parseFromDevice(JSON.stringify(said) ?? "");
    if (!envelope) this.#feed.drop("not an envelope");
    else if (envelope.type !== "refused" && seat !== this.#seat) this.#feed.drop("a second device with the same ring");
    else this.#feed.heard(envelope);
  }
}

interface FromDevice {
  readonly hello: unknown;
  /** Says which of those that hold the ring it is. */
  readonly seat: string | undefined;
  readonly number: number;
  readonly envelope: unknown;
}

function fieldsOf(message: unknown): FromDevice {
  const { hello, seat, number, envelope } = (typeof message === "object" && message !== null ? message : {}) as {
    readonly [field in keyof FromDevice]?: unknown;
  };
  return {
    hello,
    seat: typeof seat === "string" ? seat : undefined,
    number: typeof number === "number" ? number : 0,
    envelope,
  };
}

/** As JSON within the message's own JSON: text in it would grow with each quote. */
function payloadOf(message: object): PubNub.Payload {
  return JSON.parse(JSON.stringify(message)) as PubNub.Payload;
}
