/** The mesh's connection to PubNub: one client for all rooms of a record, made on first use. */
import { isLoopbackHost, type Logger } from "@leafmesh/protocol";
import type PubNub from "pubnub";
import { type Closable, RoomError } from "../contract.ts";
import type { PubNubOptions } from "./pubnub.ts";
import { pubnubRoomError } from "./pubnub-errors.ts";

/** By this a device knows the mesh: no token of a device may use it. */
export const MESH_USER_ID = "leafmesh-mesh";
/** Between two tries to listen again. */
const RETRY_AFTER_MS = 2_000;
const REQUEST_TIMEOUT_SECONDS = 10;
/** All channels of a client are in the address of its requests. */
const MAX_ROOMS = 300;
/** What trying again does not help against. */
const REFUSED: ReadonlySet<string> = new Set(["PNAccessDeniedCategory", "PNBadRequestCategory"]);

/** None of them may throw. */
export interface PubNubListener {
  message(event: PubNub.Subscription.Message): void;
  presence(event: PubNub.Subscription.Presence): void;
  /** PubNub does not let the mesh listen any more. */
  refused(error: RoomError): void;
}

export class PubNubLink implements Closable {
  readonly #keys: PubNubOptions;
  readonly #logger: Logger;
  readonly #listeners = new Map<string, PubNubListener>();
  #client: Promise<PubNub> | undefined;
  #closed = false;

  constructor({ keys, logger }: { readonly keys: PubNubOptions; readonly logger: Logger }) {
    this.#keys = keys;
    this.#logger = logger;
  }

  client(): Promise<PubNub> {
    if (this.#closed) throw new RoomError("unavailable", "The connection to PubNub is closed.");
    this.#client ??= this.#start();
    return this.#client;
  }

  /**
   * What is published on `channel` from `timetoken` on, and who is seen on `presenceOf`. Gives what ends it. Throws
   * {@link RoomError}.
   */
  async listen(
    {
      channel,
      presenceOf,
      timetoken,
    }: { readonly channel: string; readonly presenceOf: string; readonly timetoken: string },
    listener: PubNubListener,
  ): Promise<() => void> {
    const client = await this.client();
    if (this.#listeners.size >= 2 * MAX_ROOMS) {
      throw new RoomError("plan_limit", `One PubNub connection record carries ${MAX_ROOMS} rooms at a time.`);
    }
    const channels = [channel, `${presenceOf}-pnpres`];
    this.#listeners.set(channel, listener);
    this.#listeners.set(presenceOf, listener);
    client.subscribe({ channels, timetoken });
    return () => {
      this.#listeners.delete(channel);
      this.#listeners.delete(presenceOf);
      client.unsubscribe({ channels });
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    const client = await this.#client;
    client?.destroy();
  }

  async #start(): Promise<PubNub> {
    const client = await newPubNubClient(this.#keys, MESH_USER_ID);
    client.addListener({
      message: (event) => this.#listeners.get(event.channel)?.message(event),
      presence: (event) => this.#listeners.get(event.channel)?.presence(event),
      status: (event) => this.#told(event),
    });
    return client;
  }

  /** The client has given up listening. */
  #told(event: PubNub.Status | PubNub.StatusEvent): void {
    if (event.category !== "PNConnectionErrorCategory" && event.category !== "PNDisconnectedUnexpectedlyCategory")
      return;
    this.#logger.warn("the mesh cannot listen to PubNub", { category: event.category });
    const error = pubnubRoomError(event);
    for (const listener of new Set(this.#listeners.values())) listener.refused(error);
  }
}

/** A client of PubNub that repeats nothing but listening. */
export async function newPubNubClient(keys: PubNubOptions, userId: string): Promise<PubNub> {
  const { default: PubNubClient } = await import("pubnub");
  return new PubNubClient({
    subscribeKey: keys.subscribe_key,
    publishKey: keys.publish_key,
    secretKey: keys.secret_key,
    userId,
    ...pubnubPlace(keys.origin),
    enableEventEngine: true,
    // Nobody looks for the mesh.
    heartbeatInterval: 0,
    suppressLeaveEvents: true,
    transactionalRequestTimeout: REQUEST_TIMEOUT_SECONDS,
    retryConfiguration: {
      shouldRetry: ({ path }, _response, category) => path.startsWith("/v2/subscribe") && !REFUSED.has(category ?? ""),
      getDelay: () => RETRY_AFTER_MS,
      validate: () => {},
    },
  });
}

/** Plain text to this machine alone. */
function pubnubPlace(origin: string | undefined): { origin?: string; ssl?: boolean } {
  if (origin === undefined) return {};
  return { origin, ssl: !isLoopbackHost(origin.replace(/:\d+$/, "")) };
}
