/** The device's seat in one LiveKit room: data packets alone. */
import {
  type Capability,
  type Clock,
  type DeviceEnvelope,
  parseFromMesh,
  type RoomMember,
  type Timer,
  utf8Length,
} from "@leafmesh/protocol";
import {
  type DeviceRoom,
  type DeviceRoomEvent,
  JoinError,
  type JoinErrorKind,
  type QueueResult,
  type RoomEnd,
} from "../connector.ts";
import { createEventQueue } from "../event-queue.ts";

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
const MAX_WAITING_EVENTS = 64;
const MAX_WAITING_FRAMES = 32;
const RETRY_AFTER_MS = 1_000;
const LEAVE_WITHIN_MS = 1_500;
/** No room lives longer. */
const LONGEST_LIFE_MS = 900_000;
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
  readonly #events = createEventQueue<DeviceRoomEvent>(MAX_WAITING_EVENTS);
  readonly #waiters = new Set<() => void>();
  readonly #life: Timer;
  #waiting: Frame[] = [];
  #phase: "joining" | "seated" | "away" | "over" = "joining";
  #joining: ((error: JoinError) => void) | undefined;
  #sent = 0;
  #acknowledged = 0;
  #isSending = false;

  constructor(place: LiveKitPlace, room: LiveKitClientRoom, clock: Clock) {
    this.#place = place;
    this.#room = room;
    this.#clock = clock;
    this.#life = clock.schedule(LONGEST_LIFE_MS, () => this.#end("expired", "over", "the room's time is over"));
    room.on("dataReceived", (payload, participant, _kind, topic) => this.#heard(payload, participant?.identity, topic));
    room.on("disconnected", () => this.#end("closed", "over", "LiveKit ended the room for this device"));
    room.on("reconnecting", () => this.#away());
    room.on("reconnected", () => this.#back());
    room.on("participantDisconnected", ({ identity }) => {
      if (identity === place.mesh) this.#end("closed", "over", "the mesh left the room");
    });
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#events;
  }

  /** Resolves once the mesh, which is in the room, was sent the device's word. Throws {@link JoinError}. */
  async enter(capabilities: readonly Capability[] | undefined, signal: AbortSignal): Promise<void> {
    const hello: RoomMember = { v: 1, ...(capabilities ? { capabilities: [...capabilities] } : {}) };
    await this.#attempt(signal, () => this.#tell(`hello ${JSON.stringify(hello)}`));
    this.#phase = "seated";
  }

  /** Says that the person did not allow it, and is gone. Throws {@link JoinError}. */
  async refuse(signal: AbortSignal): Promise<void> {
    const text = JSON.stringify({ type: "refused", reason: "not_allowed" });
    await this.#attempt(signal, () => this.#tell(`1 ${text}`));
    this.#finish();
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#phase === "over") return "ended";
    const text = JSON.stringify(envelope);
    if (utf8Length(text) > this.maxEnvelopeBytes) return "too_large";
    const isBusy = this.#phase !== "seated" || this.#waiting.length >= MAX_WAITING_FRAMES;
    if (envelope.type === "progress" && isBusy) return "dropped";
    this.#waiting.push({ number: ++this.#sent, text });
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

  async leave(): Promise<void> {
    if (this.#phase === "over") return;
    const said = this.#phase === "seated" ? this.#tell("goodbye") : Promise.resolve();
    this.#phase = "over";
    await this.#within(said);
    await this.#finish();
  }

  async #attempt(signal: AbortSignal, say: () => Promise<void>): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        const giveUp = (): void => reject(new JoinError("unreachable", "The room was not reached in time"));
        this.#joining = reject;
        if (signal.aborted) return giveUp();
        signal.addEventListener("abort", giveUp, { once: true });
        this.#connect()
          .then(say)
          .then(resolve, (error: unknown) => reject(error instanceof JoinError ? error : joinError(error)))
          .finally(() => signal.removeEventListener("abort", giveUp));
      });
    } catch (error) {
      void this.#finish();
      throw error;
    } finally {
      this.#joining = undefined;
    }
  }

  async #connect(): Promise<void> {
    const { url, token, mesh } = this.#place;
    await this.#room.connect(url, token, { autoSubscribe: false, dynacast: false });
    // A room that is made anew for whoever comes late has nobody in it.
    const isThere = [...this.#room.remoteParticipants.values()].some(({ identity }) => identity === mesh);
    if (!isThere) throw new JoinError("over", "The mesh is not in the room any more");
  }

  /** One after the other, each until the mesh has it. Never rejects. */
  async #flush(): Promise<void> {
    if (this.#isSending) return;
    this.#isSending = true;
    for (let frame = this.#waiting[0]; frame && this.#phase !== "over"; frame = this.#waiting[0]) {
      try {
        await this.#tell(`${frame.number} ${frame.text}`);
        this.#waiting.shift();
        this.#acknowledged = frame.number;
        this.#wake();
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
    if (message.type === "closed") this.#end("closed", "over", `the mesh closed the room: ${message.reason}`);
    else if (!this.#events.push({ type: "envelope", envelope: message })) {
      this.#end("protocol", "unsupported", "more events than the device could read");
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
    else if (this.#phase !== "over") void this.#finish({ type: "closed", reason, detail });
  }

  /** Never rejects. */
  async #finish(last?: DeviceRoomEvent): Promise<void> {
    this.#phase = "over";
    this.#life.cancel();
    this.#waiting = [];
    this.#events.end(last);
    this.#wake();
    await this.#within(this.#room.disconnect());
  }

  async #within(work: Promise<unknown>): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#clock.schedule(LEAVE_WITHIN_MS, resolve);
      const end = (): void => {
        timer.cancel();
        resolve();
      };
      work.then(end, end);
    });
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }
}

/** What the library throws on connecting: a refused token, or no way there. */
function joinError(error: unknown): JoinError {
  const text = error instanceof Error ? error.message : "";
  const isRefused = /401|404|unauthorized|expired|token|not found|does not exist/i.test(text);
  return new JoinError(isRefused ? "over" : "unreachable", "LiveKit did not let the device in");
}
