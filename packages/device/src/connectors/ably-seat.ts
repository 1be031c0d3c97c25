/** The device's seat in one Ably room. Ably's client keeps the connection and repeats what was not acknowledged. */
import {
  type Capability,
  type DeviceEnvelope,
  MAX_ENVELOPE_BYTES,
  parseFromMesh,
  type RoomMember,
  utf8Length,
} from "@leafmesh/protocol";
import type * as Ably from "ably";
import {
  type DeviceRoom,
  type DeviceRoomEvent,
  JoinError,
  type JoinErrorKind,
  type QueueResult,
  type RoomEnd,
} from "../connector.ts";
import { createEventQueue } from "../event-queue.ts";

export interface AblyPlace {
  readonly channel: string;
  /** The device's client id in this room, and the mesh's. */
  readonly client: string;
  readonly mesh: string;
}

const MAX_WAITING_EVENTS = 64;
const MAX_REMEMBERED = 256;
const LEAVE_WITHIN_MS = 1_500;
/** Ably counts a message's name, sender and id as well. */
const MESSAGE_OVERHEAD_BYTES = 1_024;

/** Ably's words for a token that is over, taken back or not renewable. https://ably.com/docs/platform/errors/codes */
const TOKEN_IS_OVER: ReadonlySet<number> = new Set([40140, 40141, 40142, 40143, 40144, 40145, 40170, 40171, 80019]);

export class AblySeat implements DeviceRoom {
  readonly maxEnvelopeBytes = MAX_ENVELOPE_BYTES - MESSAGE_OVERHEAD_BYTES;
  readonly #place: AblyPlace;
  readonly #client: Ably.Realtime;
  readonly #channel: Ably.RealtimeChannel;
  readonly #events = createEventQueue<DeviceRoomEvent>(MAX_WAITING_EVENTS);
  readonly #waiters = new Set<() => void>();
  readonly #seen = new Set<string>();
  #phase: "joining" | "seated" | "away" | "over" = "joining";
  #joining: ((error: JoinError) => void) | undefined;
  #sent = 0;
  readonly #unacknowledged = new Set<number>();

  constructor(place: AblyPlace, client: Ably.Realtime) {
    this.#place = place;
    this.#client = client;
    // One message of the past: it says that the room is closed, if it is. https://ably.com/docs/channels/options/rewind
    this.#channel = client.channels.get(place.channel, { params: { rewind: "1" }, attachOnSubscribe: false });
    client.connection.on((change) => this.#moved(change));
    this.#channel.on(["failed", "suspended"], ({ reason }) => this.#refused(reason));
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#events;
  }

  /** Resolves once Ably has told the mesh. Throws {@link JoinError}. */
  async enter(capabilities: readonly Capability[] | undefined, signal: AbortSignal): Promise<void> {
    const member: RoomMember = { v: 1, ...(capabilities ? { capabilities: [...capabilities] } : {}) };
    await this.#attempt(signal, async () => {
      await this.#channel.subscribe((message) => this.#heard(message));
      await this.#channel.attach();
      await this.#channel.presence.enter(member);
    });
    this.#phase = "seated";
  }

  /** Says that the person did not allow it, and is gone. Throws {@link JoinError}. */
  async refuse(signal: AbortSignal): Promise<void> {
    const data = JSON.stringify({ type: "refused", reason: "not_allowed" });
    await this.#attempt(signal, async () => {
      await this.#channel.attach();
      await this.#channel.publish({ id: `${this.#place.client}-refused:0`, name: "up", data });
    });
    this.#finish();
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#phase === "over") return "ended";
    const data = JSON.stringify(envelope);
    if (utf8Length(data) > this.maxEnvelopeBytes) return "too_large";
    if (envelope.type === "progress" && this.#phase !== "seated") return "dropped";
    const number = ++this.#sent;
    this.#unacknowledged.add(number);
    // With an id of its own a message that Ably's client repeats is taken once.
    this.#channel.publish({ id: `${this.#place.client}-${number}:0`, name: "up", data }).then(
      () => {
        this.#unacknowledged.delete(number);
        this.#wake();
      },
      (error: Partial<Ably.ErrorInfo> | undefined) => this.#refused(error),
    );
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    const last = this.#sent;
    return new Promise((resolve) => {
      const look = (): void => {
        const done = [...this.#unacknowledged].every((number) => number > last);
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
    const said = this.#phase === "seated" ? this.#channel.presence.leave({ goodbye: true }) : Promise.resolve();
    this.#phase = "over";
    await within(LEAVE_WITHIN_MS, said);
    this.#finish();
  }

  /** One try that ends with the signal, and with the connection being refused. */
  async #attempt(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        const giveUp = (): void => reject(new JoinError("unreachable", "The room was not reached in time"));
        this.#joining = reject;
        if (signal.aborted) return giveUp();
        signal.addEventListener("abort", giveUp, { once: true });
        work()
          .then(resolve, (error: Partial<Ably.ErrorInfo>) => reject(joinError(error)))
          .finally(() => signal.removeEventListener("abort", giveUp));
      });
    } catch (error) {
      this.#finish();
      throw error;
    } finally {
      this.#joining = undefined;
    }
  }

  #heard({ id, name, clientId, data, extras }: Ably.InboundMessage): void {
    if (clientId !== this.#place.mesh || name !== "down" || typeof data !== "string") return;
    const message = parseFromMesh(data);
    if (message === undefined) return;
    if (message.type === "closed") {
      this.#end("closed", "over", `the mesh closed the room: ${message.reason}`);
      return;
    }
    // Whoever else holds the ring hears it as well: a task is for the connection that the mesh saw first.
    if (addressee(extras) !== this.#client.connection.id || this.#seen.has(id)) return;
    if (this.#seen.size < MAX_REMEMBERED) this.#seen.add(id);
    if (!this.#events.push({ type: "envelope", envelope: message })) {
      this.#end("protocol", "unsupported", "more events than the device could read");
    }
  }

  #moved({ current, reason }: Ably.ConnectionStateChange): void {
    if (current === "failed") this.#refused(reason);
    // After two minutes Ably has forgotten the connection, and what was sent to it.
    else if (current === "suspended" && this.#phase === "away")
      this.#end("lost", "unreachable", "the link was down for too long");
    else if (current === "disconnected" && this.#phase === "seated") {
      this.#phase = "away";
      this.#events.push({ type: "away" });
    } else if (current === "connected" && this.#phase === "away") {
      this.#phase = "seated";
      this.#events.push({ type: "back" });
    }
  }

  #refused(reason: Partial<Ably.ErrorInfo> | undefined): void {
    const { kind, message } = joinError(reason);
    this.#end(kind === "over" ? "expired" : "refused", kind, message);
  }

  #end(reason: RoomEnd, kind: JoinErrorKind, detail: string): void {
    if (this.#joining) this.#joining(new JoinError(kind, `The room cannot be joined: ${detail}`));
    else if (this.#phase !== "over") this.#finish({ type: "closed", reason, detail });
  }

  #finish(last?: DeviceRoomEvent): void {
    this.#phase = "over";
    this.#events.end(last);
    this.#client.close();
    this.#wake();
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }
}

function joinError(error: Partial<Ably.ErrorInfo> | undefined): JoinError {
  const code = error?.code ?? 0;
  if (TOKEN_IS_OVER.has(code)) return new JoinError("over", `Ably says that the room's token is over (${code})`);
  const isOfService = code === 0 || code >= 50_000;
  return new JoinError(isOfService ? "unreachable" : "unsupported", `Ably refused the device (code ${code})`);
}

function addressee(extras: unknown): string | undefined {
  const { headers } = (extras ?? {}) as { readonly headers?: { readonly to?: unknown } };
  return typeof headers?.to === "string" ? headers.to : undefined;
}

function within(timeoutMs: number, work: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, timeoutMs);
    const end = (): void => {
      clearTimeout(timer);
      resolve();
    };
    work.then(end, end);
  });
}
