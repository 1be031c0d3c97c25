/** Tokens and room control over LiveKit's HTTP API. https://docs.livekit.io/reference/server/server-apis/ */
import type { NewId } from "@leafmesh/protocol";
import type { RoomServiceClient } from "livekit-server-sdk";
import { type CheckResult, RoomError, type RoomErrorKind } from "../contract.ts";
import { untilAborted } from "../patience.ts";
import type { LiveKitOptions } from "./livekit.ts";

const REQUEST_TIMEOUT_SECONDS = 10;
/** A room that nobody entered, and one that everybody left, is gone by itself. */
const LONGEST_EMPTY_SECONDS = 120;
const PROBE_EMPTY_SECONDS = 10;

type Meaning = readonly [kind: RoomErrorKind, sentence: string];

const REFUSED: Meaning = [
  "bad_credential",
  "LiveKit does not accept the API key and secret: copy both again from your project → Settings → Keys.",
];
const QUOTA: Meaning = [
  "plan_limit",
  "A limit of the LiveKit project is reached: see its usage in LiveKit's dashboard, or move to a larger plan.",
];
const UNAVAILABLE: Meaning = [
  "unavailable",
  "LiveKit cannot be reached or has trouble: see the server's URL and its status.",
];
const UNEXPECTED: Meaning = ["mismatch", "LiveKit refused the request as wrong."];

const byTwirpCode: Readonly<Record<string, Meaning>> = {
  unauthenticated: REFUSED,
  permission_denied: REFUSED,
  resource_exhausted: QUOTA,
  unavailable: UNAVAILABLE,
  deadline_exceeded: UNAVAILABLE,
  internal: UNAVAILABLE,
};

/** The message names the cure and the code, and nothing that LiveKit wrote. */
export function livekitRoomError(error: unknown): RoomError {
  if (error instanceof RoomError) return error;
  const { code, status } = (typeof error === "object" && error !== null ? error : {}) as {
    readonly code?: unknown;
    readonly status?: unknown;
  };
  const [kind, sentence] =
    (typeof code === "string" ? byTwirpCode[code] : undefined) ?? byStatus(typeof status === "number" ? status : 0);
  const name = typeof code === "string" ? code : status ? `HTTP ${status}` : undefined;
  return new RoomError(kind, name ? `${sentence} (${name})` : sentence, { code: name, cause: error });
}

function byStatus(status: number): Meaning {
  if (status === 401 || status === 403) return REFUSED;
  if (status === 402 || status === 429) return QUOTA;
  return status === 0 || status >= 500 ? UNAVAILABLE : UNEXPECTED;
}

export class LiveKitControl {
  readonly #record: LiveKitOptions;
  #client: Promise<RoomServiceClient> | undefined;

  constructor(record: LiveKitOptions) {
    this.#record = record;
  }

  /** Where participants connect. */
  get url(): string {
    return this.#record.url.replace(/^http/, "ws");
  }

  /** A token that joins one room, sends data there and does nothing else. */
  async token(room: string, identity: string, lifetimeSeconds: number): Promise<string> {
    const { AccessToken } = await import("livekit-server-sdk");
    const { api_key, api_secret } = this.#record;
    const token = new AccessToken(api_key, api_secret, { identity, ttl: lifetimeSeconds });
    token.addGrant({
      room,
      roomJoin: true,
      canPublish: false,
      canPublishData: true,
      // Data comes down the connection that tracks would come down.
      canSubscribe: true,
      canUpdateOwnMetadata: false,
    });
    return await token.toJwt();
  }

  /** Throws {@link RoomError}. */
  async create(name: string, maxParticipants: number, emptySeconds = LONGEST_EMPTY_SECONDS): Promise<void> {
    await this.#call((client) =>
      client.createRoom({ name, maxParticipants, emptyTimeout: emptySeconds, departureTimeout: emptySeconds }),
    );
  }

  /** Everybody is put out. Throws {@link RoomError}. */
  async delete(name: string): Promise<void> {
    await this.#call((client) => client.deleteRoom(name));
  }

  /** Whether the participant is there, or LiveKit does not say. Never rejects. */
  async hasParticipant(room: string, identity: string): Promise<boolean> {
    try {
      await this.#call((client) => client.getParticipant(room, identity));
      return true;
    } catch (error) {
      return !(error instanceof RoomError && error.code === "not_found");
    }
  }

  async #call<Value>(use: (client: RoomServiceClient) => Promise<Value>): Promise<Value> {
    this.#client ??= this.#connect();
    try {
      return await use(await this.#client);
    } catch (error) {
      throw livekitRoomError(error);
    }
  }

  async #connect(): Promise<RoomServiceClient> {
    const { RoomServiceClient: Client } = await import("livekit-server-sdk");
    const { url, api_key, api_secret } = this.#record;
    // A request that LiveKit may have done is not repeated behind our back.
    return new Client(url.replace(/^ws/, "http"), api_key, api_secret, {
      requestTimeout: REQUEST_TIMEOUT_SECONDS,
      failover: false,
    });
  }
}

/** A room is made with the key and deleted again, as for an ask; nobody enters it. */
export async function checkLiveKit(control: LiveKitControl, newId: NewId, signal: AbortSignal): Promise<CheckResult> {
  const name = `leafmesh-${newId("probe")}`;
  try {
    await untilAborted(control.create(name, 1, PROBE_EMPTY_SECONDS), signal, "LiveKit");
    await untilAborted(control.delete(name), signal, "LiveKit");
    return { status: "active" };
  } catch (error) {
    const { kind, message } = livekitRoomError(error);
    return { status: kind === "unavailable" || kind === "rate" ? "readable" : "failing", reason: message };
  }
}
