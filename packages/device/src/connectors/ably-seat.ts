/** The device's seat in one Ably room. Ably's client keeps the connection and repeats what was not acknowledged. */
import {
  type Capability,
  type Clock,
  type DeviceEnvelope,
  MAX_ENVELOPE_BYTES,
  parseFromMesh,
  type RoomMember,
  utf8Length,
} from "@leafmesh/protocol";
import type * as Ably from "ably";
import { type DeviceRoom, type DeviceRoomEvent, JoinError, type QueueResult } from "../connector.ts";
import { SeatCore } from "./seat-core.ts";

export interface AblyPlace {
  readonly channel: string;
  /** The device's client id in this room, and the mesh's. */
  readonly client: string;
  readonly mesh: string;
}

/** Ably counts a message's name, sender and id as well. */
const MESSAGE_OVERHEAD_BYTES = 1_024;

/** Ably's words for a token that is over, taken back or not renewable. https://ably.com/docs/platform/errors/codes */
const TOKEN_IS_OVER: ReadonlySet<number> = new Set([40140, 40141, 40142, 40143, 40144, 40145, 40170, 40171, 80019]);

export class AblySeat implements DeviceRoom {
  readonly maxEnvelopeBytes = MAX_ENVELOPE_BYTES - MESSAGE_OVERHEAD_BYTES;
  readonly #place: AblyPlace;
  readonly #client: Ably.Realtime;
  readonly #channel: Ably.RealtimeChannel;
  readonly #core: SeatCore;

  constructor(place: AblyPlace, client: Ably.Realtime, clock: Clock) {
    this.#place = place;
    this.#client = client;
    this.#core = new SeatCore({ clock, disconnect: () => client.close(), toJoinError });
    // One message of the past: it says that the room is closed, if it is. https://ably.com/docs/channels/options/rewind
    this.#channel = client.channels.get(place.channel, { params: { rewind: "1" }, attachOnSubscribe: false });
    client.connection.on((change) => this.#moved(change));
    this.#channel.on(["failed", "suspended"], ({ reason }) => this.#refused(reason));
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#core.events;
  }

  /** Resolves once Ably has told the mesh. Throws {@link JoinError}. */
  async enter(capabilities: readonly Capability[] | undefined, signal: AbortSignal): Promise<void> {
    const member: RoomMember = { v: 1, ...(capabilities ? { capabilities: [...capabilities] } : {}) };
    await this.#core.enter(signal, async () => {
      await this.#channel.subscribe((message) => this.#heard(message));
      await this.#channel.attach();
      await this.#channel.presence.enter(member);
    });
  }

  /** Says that the person did not allow it, and is gone. Throws {@link JoinError}. */
  async refuse(signal: AbortSignal): Promise<void> {
    const data = JSON.stringify({ type: "refused", reason: "not_allowed" });
    await this.#core.visit(signal, async () => {
      await this.#channel.attach();
      await this.#channel.publish({ id: `${this.#place.client}-refused:0`, name: "up", data });
    });
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#core.isOver) return "ended";
    const data = JSON.stringify(envelope);
    if (utf8Length(data) > this.maxEnvelopeBytes) return "too_large";
    if (envelope.type === "progress" && !this.#core.isSeated) return "dropped";
    const number = this.#core.nextNumber();
    // With an id of its own a message that Ably's client repeats is taken once.
    this.#channel.publish({ id: `${this.#place.client}-${number}:0`, name: "up", data }).then(
      () => this.#core.acknowledge(number),
      (error: unknown) => this.#refused(error),
    );
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    return this.#core.acked(signal);
  }

  leave(): Promise<void> {
    return this.#core.leave(() => this.#channel.presence.leave({ goodbye: true }));
  }

  #heard({ id, name, clientId, data, extras }: Ably.InboundMessage): void {
    if (clientId !== this.#place.mesh || name !== "down" || typeof data !== "string") return;
    const message = parseFromMesh(data);
    if (message === undefined) return;
    if (message.type === "closed") this.#core.closedByMesh(message);
    // Whoever else holds the ring hears it as well: a task is for the connection that the mesh saw first.
    else if (addressee(extras) === this.#client.connection.id && this.#core.isNew(id)) this.#core.hand(message);
  }

  #moved({ current, reason }: Ably.ConnectionStateChange): void {
    if (current === "failed") this.#refused(reason);
    else if (current === "disconnected") this.#core.away();
    else if (current === "connected") this.#core.back();
    // After two minutes Ably has forgotten the connection, and what was sent to it.
    else if (current === "suspended" && this.#core.isAway) {
      this.#core.end("lost", "unreachable", "the link was down for too long");
    }
  }

  #refused(reason: unknown): void {
    const { kind, message } = toJoinError(reason);
    this.#core.end(kind === "over" ? "expired" : "refused", kind, message);
  }
}

function toJoinError(error: unknown): JoinError {
  const { code: given } = (typeof error === "object" && error !== null ? error : {}) as { readonly code?: unknown };
  const code = typeof given === "number" ? given : 0;
  if (TOKEN_IS_OVER.has(code)) return new JoinError("over", `Ably says that the room's token is over (${code})`);
  const isOfService = code === 0 || code >= 50_000;
  return new JoinError(isOfService ? "unreachable" : "unsupported", `Ably refused the device (code ${code})`);
}

function addressee(extras: unknown): string | undefined {
  const { headers } = (extras ?? {}) as { readonly headers?: { readonly to?: unknown } };
  return typeof headers?.to === "string" ? headers.to : undefined;
}
