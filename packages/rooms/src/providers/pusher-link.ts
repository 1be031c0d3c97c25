/** The mesh's connection to Pusher: one client for all rooms of a record, made on first use. */
import type { Clock, Logger } from "@leafmesh/protocol";
import type PusherJs from "pusher-js";
import type { PresenceChannel } from "pusher-js";
import { type Closable, RoomError } from "../contract.ts";
import { untilAborted } from "../patience.ts";
import type { PusherOptions } from "./pusher.ts";
import { PusherApi } from "./pusher-api.ts";
import { type PusherFault, pusherFaultError, pusherFaultOf, pusherSilence } from "./pusher-errors.ts";
import { type PusherPlace, parsePusherPlace } from "./pusher-place.ts";
import { signSubscription } from "./pusher-signature.ts";

export type Pusher = PusherJs.default;
type PusherClass = typeof PusherJs.default;

/** The mesh's own place in its channels. */
export const MESH_USER_ID = "mesh";
/** Client events of devices: an envelope, and the goodbye. */
const DEVICE_EVENTS = ["client-up", "client-bye"] as const;
const MAX_ROOMS = 1_000;
const UNAVAILABLE_AFTER_MS = 5_000;

/** None of them may throw. */
export interface PusherListener {
  /** The mesh is in the channel, for the first time or again, and these are there. */
  seated(userIds: readonly string[]): void;
  memberAdded(userId: string): void;
  memberRemoved(userId: string): void;
  /** A client event, and who Pusher says sent it. */
  clientEvent(name: (typeof DEVICE_EVENTS)[number], data: unknown, userId: string | undefined): void;
  /** Pusher does not let the mesh take part any more. */
  refused(error: RoomError): void;
}

interface Seat {
  readonly channel: PresenceChannel;
  readonly listener: PusherListener;
  /** While it is not in the channel yet. */
  opening: { resolve(): void; reject(error: RoomError): void } | undefined;
}

export interface PusherLinkOptions {
  readonly record: PusherOptions;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class PusherLink implements Closable {
  readonly api: PusherApi;
  readonly #record: PusherOptions;
  readonly #place: PusherPlace;
  readonly #logger: Logger;
  readonly #seats = new Map<string, Seat>();
  #client: Promise<Pusher> | undefined;
  #isConnected = false;
  /** Whether this connection has shown that it may send client events. */
  #hasProbed = false;
  #closed = false;

  constructor({ record, clock, logger }: PusherLinkOptions) {
    const place = parsePusherPlace(record.cluster);
    if (!place) throw new TypeError("a Pusher cluster that its schema refuses");
    this.#record = record;
    this.#place = place;
    this.#logger = logger;
    this.api = new PusherApi(record, place, clock);
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  get place(): PusherPlace {
    return this.#place;
  }

  /** Takes the mesh's seat in a channel. Gives what ends it. Throws {@link RoomError}. */
  async join(name: string, listener: PusherListener, signal: AbortSignal): Promise<() => void> {
    if (this.#seats.size >= MAX_ROOMS) {
      throw new RoomError("plan_limit", `One Pusher connection record carries ${MAX_ROOMS} rooms at a time.`);
    }
    const client = await untilAborted(this.#connect(), signal, "Pusher");
    if (signal.aborted) throw pusherSilence();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const channel = client.subscribe(name) as PresenceChannel;
    const seat: Seat = { channel, listener, opening: { resolve, reject } };
    this.#seats.set(name, seat);
    this.#bind(seat);
    const leave = (): void => {
      this.#seats.delete(name);
      channel.unbind();
      client.unsubscribe(name);
    };
    try {
      await untilAborted(promise, signal, "Pusher");
      return leave;
    } catch (error) {
      leave();
      throw error;
    } finally {
      seat.opening = undefined;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
    await this.api.close();
  }

  #connect(): Promise<Pusher> {
    if (this.#closed) throw new RoomError("unavailable", "The connection to Pusher is closed.");
    this.#client ??= this.#start();
    return this.#client;
  }

  async #start(): Promise<Pusher> {
    const client = await newPusherClient(this.#record, this.#place);
    client.connection.bind("state_change", ({ current }: { readonly current: string }) => {
      this.#isConnected = current === "connected";
      if (current === "connected") this.#hasProbed = false;
      // It goes on trying; who wants to open a room does not wait for that.
      if (current === "unavailable" || current === "failed") this.#refuseOpening(pusherSilence());
    });
    client.connection.bind("error", (reported: unknown) => {
      const fault = pusherFaultOf(reported);
      if (fault) this.#told(fault);
    });
    return client;
  }

  #bind(seat: Seat): void {
    const { channel, listener } = seat;
    channel.bind("pusher:subscription_succeeded", () => {
      this.#probe(channel);
      listener.seated(Object.keys(channel.members.members ?? {}));
      seat.opening?.resolve();
    });
    channel.bind("pusher:member_added", ({ id }: { readonly id: string }) => listener.memberAdded(id));
    channel.bind("pusher:member_removed", ({ id }: { readonly id: string }) => listener.memberRemoved(id));
    for (const name of DEVICE_EVENTS) {
      channel.bind(name, (data: unknown, metadata: { readonly user_id?: string }) =>
        listener.clientEvent(name, data, metadata.user_id),
      );
    }
  }

  /** Pusher says that client events are off only to who sends one: the mesh finds out before a device has to. */
  #probe(channel: PresenceChannel): void {
    if (this.#hasProbed) return;
    this.#hasProbed = true;
    channel.trigger("client-probe", {});
  }

  #told(fault: PusherFault): void {
    const error = pusherFaultError(fault);
    this.#logger.warn("Pusher refused something", { code: fault.code, kind: error.kind });
    const { code = 0 } = fault;
    const isFatal = (code >= 4000 && code < 4100) || error.kind === "bad_credential";
    this.#refuseOpening(error);
    if (!isFatal) return;
    for (const { listener } of [...this.#seats.values()]) listener.refused(error);
    void this.#drop();
  }

  #refuseOpening(error: RoomError): void {
    for (const { opening } of [...this.#seats.values()]) opening?.reject(error);
  }

  /** The next room connects anew. */
  async #drop(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    this.#isConnected = false;
    this.#seats.clear();
    if (client) disconnect(await client);
  }
}

/** A client of Pusher that signs for itself. */
export async function newPusherClient(record: PusherOptions, place: PusherPlace): Promise<Pusher> {
  const { default: imported } = await import("pusher-js");
  // The declarations describe what bundlers make of it; Node gives the class itself.
  const PusherClient = (imported.default ?? imported) as PusherClass;
  return new PusherClient(record.key, {
    ...place.client,
    enabledTransports: ["ws"],
    unavailableTimeout: UNAVAILABLE_AFTER_MS,
    channelAuthorization: {
      customHandler: ({ socketId, channelName }, callback) =>
        callback(null, signSubscription(record, { socketId, channel: channelName, userId: MESH_USER_ID })),
    },
  });
}

/** Pusher's library remembers every client that it made. */
export function disconnect(client: Pusher): void {
  client.unbind_all();
  client.disconnect();
  const { instances } = client.constructor as PusherClass;
  const index = instances.indexOf(client);
  if (index !== -1) instances.splice(index, 1);
}
