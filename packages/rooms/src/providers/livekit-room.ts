/** The mesh's side of one room over LiveKit. */

import {
  type Clock,
  type JoinInfo,
  type Logger,
  type NewId,
  parseFromDevice,
  parseRoomMember,
  type RoomMember,
  type TaskEnvelope,
  type Timer,
  utf8Length,
} from "@leafmesh/protocol";
import type { Room as RtcRoom } from "@livekit/rtc-node";
import { type OpenRoom, type Room, RoomError, type RoomEvent, type Sent } from "../contract.ts";
import { briefly, untilAborted } from "../patience.ts";
import { RoomFeed } from "../room-feed.ts";
import { type LiveKitControl, livekitRoomError } from "./livekit-control.ts";

/** LiveKit has waited before it says that a device is gone. */
export const AWAY_GRACE_MS = 10_000;
/** A data packet has 15 KiB at most. https://docs.livekit.io/home/client/data/packets/ */
const MAX_PACKET_BYTES = 15 * 1024;
const ADDRESS_BYTES = 512;
export const MAX_TASK_BYTES = MAX_PACKET_BYTES - ADDRESS_BYTES;

/** By this a device knows the mesh; the token decides it. */
export const MESH_IDENTITY = "leafmesh-mesh";
const TOPIC = "leafmesh";
/** What the device calls for everything that it says: the answer is its receipt. */
const METHOD = "leafmesh";
/** Once LiveKit has told of a participant, it tells when that is gone; it tells every three seconds. */
const LOOK_AFTER_MS = 4_000;
const MESH_TOKEN_SECONDS = 60;
const MAX_REMEMBERED = 256;

export interface LiveKitRoomRequest extends OpenRoom {
  readonly graceMs: number;
}

export interface LiveKitRoomDependencies {
  readonly control: LiveKitControl;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: NewId;
}

/** Takes the mesh's own place before anybody can be rung. Throws {@link RoomError} and leaves nothing open. */
export async function openLiveKitRoom(
  request: LiveKitRoomRequest,
  { control, clock, logger, newId }: LiveKitRoomDependencies,
  signal: AbortSignal,
): Promise<Room> {
  const label = newId("room");
  const name = `leafmesh-${label}`;
  const device = newId("lmd");
  const rtc = await import("@livekit/rtc-node");
  const seat = new rtc.Room();
  try {
    await untilAborted(control.create(name, 2), signal, "LiveKit");
    const [meshToken, token] = await Promise.all([
      control.token(name, MESH_IDENTITY, MESH_TOKEN_SECONDS),
      control.token(name, device, Math.ceil(request.joinWithinMs / 1000)),
    ]);
    const join: JoinInfo = {
      provider: "livekit",
      url: control.url,
      room: name,
      token,
      params: { identity: device, mesh: MESH_IDENTITY },
    };
    const room = new LiveKitRoom({ join, label, name, device, seat, control, logger, graceMs: request.graceMs }, clock);
    const options = { autoSubscribe: false, dynacast: false };
    await untilAborted(connect(seat, control.url, meshToken, options), signal, "LiveKit");
    room.listen();
    return room;
  } catch (error) {
    void seat.disconnect().catch(() => {});
    void control.delete(name).catch(() => {});
    throw livekitRoomError(error);
  }
}

/** What the native part throws says no more than that it did not come about. */
async function connect(
  seat: RtcRoom,
  url: string,
  token: string,
  options: Parameters<RtcRoom["connect"]>[2],
): Promise<void> {
  try {
    await seat.connect(url, token, options);
  } catch (cause) {
    const sentence = "The mesh could not enter its LiveKit room: see that UDP or TCP to the server is open.";
    throw new RoomError("unavailable", sentence, { cause });
  }
}

interface Facts {
  readonly join: JoinInfo;
  readonly label: string;
  readonly name: string;
  /** The device's identity. */
  readonly device: string;
  readonly seat: RtcRoom;
  readonly control: LiveKitControl;
  readonly logger: Logger;
  readonly graceMs: number;
}

class LiveKitRoom implements Room {
  readonly join: JoinInfo;
  readonly label: string;
  readonly maxTaskBytes = MAX_TASK_BYTES;
  readonly #facts: Facts;
  readonly #clock: Clock;
  readonly #feed: RoomFeed;
  readonly #seen = new Set<number>();
  #hasJoined = false;
  #look: Timer | undefined;
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

  /** To be called once the seat is taken. */
  listen(): void {
    const { seat, device } = this.#facts;
    // LiveKit tells of participants without tracks every three seconds: the device calls, and the call says who it is.
    seat.localParticipant?.registerRpcMethod(METHOD, async ({ callerIdentity, payload }) => {
      if (callerIdentity === device) this.#heard(payload);
      else this.#feed.drop("from another participant");
      return "";
    });
    seat.on("participantDisconnected", ({ identity }) => {
      if (identity === device) this.#feed.lost();
    });
    seat.on("participantConnected", ({ identity }) => {
      if (identity === device && this.#hasJoined) this.#feed.here(undefined);
    });
    seat.on("disconnected", () => {
      if (this.#closing) return;
      this.#feed.fail(new RoomError("unavailable", "LiveKit put the mesh out of its room, or ended it."));
    });
  }

  async send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent> {
    if (this.#feed.taskLeft) throw new Error("a room takes one task");
    const text = JSON.stringify(task);
    const bytes = utf8Length(text);
    if (bytes > this.maxTaskBytes) {
      const sentence = `The task has ${bytes} bytes, the room takes ${this.maxTaskBytes}.`;
      return { status: "not_handed", error: new RoomError("too_big", sentence, { code: "task_too_large" }) };
    }
    // LiveKit takes a packet for a participant that is gone.
    const obstacle = this.#feed.obstacle ?? (signal.aborted ? "There was no time left to send the task." : undefined);
    if (obstacle !== undefined) return { status: "not_handed", error: new RoomError("unavailable", obstacle) };
    this.#feed.taskIsLeaving();
    // From here on LiveKit does not say what became of it.
    await untilAborted(this.#publish(text), signal, "LiveKit").catch(() => {});
    return { status: "handed" };
  }

  async cancel(askId: string, reason: string): Promise<void> {
    await briefly(
      this.#clock,
      this.#publish(JSON.stringify({ type: "cancel", id: askId, reason: reason.slice(0, 200) })),
    );
  }

  close(reason: string): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  async #close(reason: string): Promise<void> {
    this.#feed.close();
    this.#look?.cancel();
    const { seat, control, name, logger } = this.#facts;
    await briefly(this.#clock, this.#publish(JSON.stringify({ type: "closed", reason: reason.slice(0, 200) })));
    await briefly(
      this.#clock,
      control
        .delete(name)
        .catch((error) => logger.warn("a LiveKit room could not be deleted", { room: this.label, error })),
    );
    await briefly(this.#clock, seat.disconnect());
  }

  async #publish(text: string): Promise<void> {
    const { seat, device } = this.#facts;
    const options = { reliable: true, topic: TOPIC, destination_identities: [device] };
    await seat.localParticipant?.publishData(new TextEncoder().encode(text), options);
  }

  #heard(payload: string): void {
    const [word = "", text = ""] = payload.split(/ (.*)/s);
    const number = /^\d{1,9}$/.test(word) ? Number(word) : undefined;
    if (word === "hello") this.#entered(text);
    else if (word === "goodbye") this.#feed.left();
    else if (number === undefined) this.#feed.drop("not an envelope");
    else if (!this.#seen.has(number)) {
      if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(number);
      const envelope = parseFromDevice(text);
      if (envelope) this.#feed.heard(envelope);
      else this.#feed.drop("not an envelope");
    }
  }

  #entered(text: string): void {
    const member = memberIn(text);
    if (!member) {
      this.#feed.drop("not a presence message");
      return;
    }
    this.#hasJoined = true;
    this.#feed.here(member.capabilities);
    this.#look?.cancel();
    this.#look = this.#clock.schedule(LOOK_AFTER_MS, () => void this.#lookForDevice());
  }

  /** LiveKit does not tell of a participant that was gone before it told of it. Never rejects. */
  async #lookForDevice(): Promise<void> {
    const { control, name, device } = this.#facts;
    if (!(await control.hasParticipant(name, device)) && !this.#feed.isOver) this.#feed.lost();
  }
}

function memberIn(text: string): RoomMember | undefined {
  try {
    return parseRoomMember(JSON.parse(text));
  } catch {
    return undefined;
  }
}
