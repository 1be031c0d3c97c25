/** The device's seat in one LiveKit room: data packets alone. */
import {
  type Capability,
  type Clock,
  type DeviceEnvelope,
  parseFromMesh,
  type RoomMember,
  utf8Length,
} from "@leafmesh/protocol";
import { type DeviceRoom, type DeviceRoomEvent, JoinError, type QueueResult } from "../connector.ts";
import { SeatCore } from "./seat-core.ts";

/** What `Room` of LiveKit's libraries has in common, for Node and browsers. */
export interface LiveKitClientRoom {
  readonly remoteParticipants: ReadonlyMap<string, { readonly identity: string }>;
  readonly localParticipant?: LiveKitParticipant | undefined;
  connect(url: string, token: string, options?: { autoSubscribe: boolean; dynacast: boolean }): Promise<void>;
  disconnect(): Promise<void>;
  on(event: "dataReceived", listener: DataListener): unknown;
  on(event: "disconnected" | "reconnecting" | "reconnected", listener: () => void): unknown;
  on(event: "participantDisconnected", listener: (participant: { readonly identity: string }) => void): unknown;
}

interface LiveKitParticipant {
  performRpc(call: { destinationIdentity: string; method: string; payload: string }): Promise<string>;
}

type DataListener = (
  payload: Uint8Array,
  participant?: { readonly identity: string },
  kind?: unknown,
  topic?: string,
) => void;

export interface LiveKitPlace {
  readonly url: string;
  readonly token: string;
  /** The mesh's identity. */
  readonly mesh: string;
}

/** A call carries 15 KiB at most, here with a number before it. https://docs.livekit.io/home/client/data/rpc/ */
const MAX_ENVELOPE_BYTES = 15 * 1024 - 16;
const MAX_WAITING_FRAMES = 32;
const RETRY_AFTER_MS = 1_000;
const TOPIC = "leafmesh";
/** What the mesh is called with: its answer is the receipt. */
const METHOD = "leafmesh";

interface Frame {
  readonly number: number;
  readonly text: string;
}

export class LiveKitSeat implements DeviceRoom {
  readonly maxEnvelopeBytes = MAX_ENVELOPE_BYTES;
  readonly #place: LiveKitPlace;
  readonly #room: LiveKitClientRoom;
  readonly #clock: Clock;
  readonly #core: SeatCore;
  #waiting: Frame[] = [];
  #isSending = false;

  constructor(place: LiveKitPlace, room: LiveKitClientRoom, clock: Clock) {
    this.#place = place;
    this.#room = room;
    this.#clock = clock;
    this.#core = new SeatCore({ clock, disconnect: () => room.disconnect(), toJoinError });
    room.on("dataReceived", (payload, participant, _kind, topic) => this.#heard(payload, participant?.identity, topic));
    room.on("disconnected", () => this.#core.end("closed", "over", "LiveKit ended the room for this device"));
    room.on("reconnecting", () => this.#core.away());
    room.on("reconnected", () => this.#core.back());
    room.on("participantDisconnected", ({ identity }) => {
      if (identity === place.mesh) this.#core.end("closed", "over", "the mesh left the room");
    });
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#core.events;
  }

  /** Resolves once the mesh, which is in the room, was sent the device's word. Throws {@link JoinError}. */
  async enter(capabilities: readonly Capability[] | undefined, signal: AbortSignal): Promise<void> {
    const hello: RoomMember = { v: 1, ...(capabilities ? { capabilities: [...capabilities] } : {}) };
    await this.#core.enter(signal, () => this.#connectAndTell(`hello ${JSON.stringify(hello)}`));
  }

  /** Says that the person did not allow it, and is gone. Throws {@link JoinError}. */
  async refuse(signal: AbortSignal): Promise<void> {
    const text = JSON.stringify({ type: "refused", reason: "not_allowed" });
    await this.#core.visit(signal, () => this.#connectAndTell(`1 ${text}`));
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#core.isOver) return "ended";
    const text = JSON.stringify(envelope);
    if (utf8Length(text) > this.maxEnvelopeBytes) return "too_large";
    const isBusy = !this.#core.isSeated || this.#waiting.length >= MAX_WAITING_FRAMES;
    if (envelope.type === "progress" && isBusy) return "dropped";
    this.#waiting.push({ number: this.#core.nextNumber(), text });
    void this.#flush();
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    return this.#core.acked(signal);
  }

  leave(): Promise<void> {
    return this.#core.leave(() => this.#tell("goodbye"));
  }

  async #connectAndTell(said: string): Promise<void> {
    const { url, token, mesh } = this.#place;
    await this.#room.connect(url, token, { autoSubscribe: false, dynacast: false });
    // A room that is made anew for whoever comes late has nobody in it.
    const isThere = [...this.#room.remoteParticipants.values()].some(({ identity }) => identity === mesh);
    if (!isThere) throw new JoinError("over", "The mesh is not in the room any more");
    await this.#tell(said);
  }

  /** One after the other, each until the mesh has it. Never rejects. */
  async #flush(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    for (let frame = this.#waiting[0]; frame && !this.#core.isOver; frame = this.#waiting[0]) {
      try {
        await this.#tell(`${frame.number} ${frame.text}`);
        this.#waiting.shift();
        this.#core.acknowledge(frame.number);
      } catch {
        // The library says with `disconnected` when it has given up.
        await new Promise<void>((resolve) => void this.#clock.schedule(RETRY_AFTER_MS, resolve));
      }
    }
    this.#isSending = false;
  }

  /** Resolves once the mesh has it. */
  async #tell(said: string): Promise<void> {
    const participant = this.#room.localParticipant;
    if (!participant) throw new Error("not connected");
    await participant.performRpc({
      destinationIdentity: this.#place.mesh,
      method: METHOD,
      payload: said,
    });
  }

  #heard(payload: Uint8Array, from: string | undefined, topic: string | undefined): void {
    if (from !== this.#place.mesh || topic !== TOPIC) return;
    const message = parseFromMesh(new TextDecoder().decode(payload));
    if (message === undefined) return;
    if (message.type === "closed") this.#core.closedByMesh(message);
    else this.#core.hand(message);
  }
}

/** What the library throws on connecting: a refused token, or no way there. */
function toJoinError(error: unknown): JoinError {
  const text = error instanceof Error ? error.message : "";
  const isRefused = /401|404|unauthorized|expired|token|not found|does not exist/i.test(text);
  return new JoinError(isRefused ? "over" : "unreachable", "LiveKit did not let the device in");
}
