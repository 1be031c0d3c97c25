/**
 * What a realtime provider is to LeafMesh: a place where the mesh and one device meet for one task. An adapter moves
 * envelopes and reports presence; what they mean is decided by the ask. Imports the protocol and nothing else.
 * How a new one is made: docs/adding-a-room.md.
 */
import type {
  Approval,
  Capability,
  Clock,
  DeviceEnvelope,
  JoinInfo,
  Logger,
  NewId,
  RoomCallback,
  RoomVoucher,
  TaskEnvelope,
} from "@leafmesh/protocol";
import type * as z from "zod";

export interface Closable {
  close(): Promise<void>;
}

/** One per connection record, so that a record used as notifier and as room holds one socket. */
export interface ConnectionScope {
  share<Value extends Closable>(key: string, make: () => Value): Value;
}

export interface ProviderDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: NewId;
  readonly scope: ConnectionScope;
  /** `server.public_url` of the mesh, without a trailing slash. */
  readonly publicUrl?: string | undefined;
  /** Left out where no device can reach the mesh: where a mesh is only checked. */
  readonly callbacks?: RoomCallbacks | undefined;
}

/** What a device of a room asked of the mesh itself. Not yet known to come from it: that is what the token is for. */
export interface CallbackRequest {
  readonly token: string | undefined;
  readonly callback: RoomCallback;
}

export type CallbackAnswer =
  | { readonly status: "vouched"; readonly voucher: RoomVoucher }
  | { readonly status: "noted" }
  | { readonly status: "bad_token" | "over" | "taken" | "wrong_channel" };

/** A route of the mesh for one room, where the provider wants the mesh to vouch for each connection of a device. */
export interface RoomCallbacks {
  /** Serves until `close`. `undefined` when devices cannot reach this process. `answer` may not throw. */
  serve(answer: (request: CallbackRequest) => CallbackAnswer): { readonly url: string; close(): void } | undefined;
}

/** A request for one room: one ask, one device, one task. */
export interface OpenRoom {
  readonly askId: string;
  readonly deviceId: string;
  readonly approval: Approval;
  /** How long the device's credential must work for a first join. */
  readonly joinWithinMs: number;
  /** After this the room may close by itself: join wait, reply wait, grace and a margin. */
  readonly lifetimeMs: number;
}

/** Whether the device has the task, as far as the provider can tell. */
export type Delivered = "no" | "maybe" | "yes";

/** What happens in a room, in order. After `closed` nothing follows. */
export type RoomEvent =
  | { readonly type: "joined"; readonly capabilities?: readonly Capability[] | undefined }
  /** The person did not allow the connection. Only before the task. */
  | { readonly type: "refused" }
  /** The device's link is down and may come back within `graceMs`. */
  | { readonly type: "away"; readonly graceMs: number }
  | { readonly type: "back" }
  /**
   * The device is gone for good. `delivered` is about the task and `no` is only said when it is certain: no send that
   * is under way or comes later brings the task to the device any more.
   */
  | { readonly type: "left"; readonly reason: "left" | "lost"; readonly delivered: Delivered }
  /** From the device of this room, by the provider's word, and well-formed. */
  | { readonly type: "frame"; readonly envelope: DeviceEnvelope }
  /** Something that is not an envelope, or too large, or not from this room's device; dropped. */
  | {
      readonly type: "dropped";
      readonly why: string;
      /** It came from this room's device and was dropped for its size: perhaps the answer. */
      readonly tooLarge?: boolean | undefined;
    }
  /** The room itself ended without `close` being called. `delivered` as with `left`. */
  | { readonly type: "closed"; readonly error: RoomError; readonly delivered: Delivered };

/**
 * What became of a task that was sent. `not_handed` is said only when the task certainly did not leave and never will;
 * every doubt is `handed`.
 */
export type Sent = { readonly status: "handed" } | { readonly status: "not_handed"; readonly error: RoomError };

export interface Room {
  /** Goes into the ring. Holds a credential for this room alone and never the provider's secret. */
  readonly join: JoinInfo;
  /** Name of the room for events and logs; no credential. */
  readonly label: string;
  /** Largest task, in bytes of its JSON. */
  readonly maxTaskBytes: number;
  /** One reader. Ends after `closed`, or when {@link Room.close} was called. */
  readonly events: AsyncIterable<RoomEvent>;
  /** At most one task a room. Never queued for later: what cannot leave now is `not_handed`. */
  send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent>;
  /** Tells the device, best effort, that its task is over. Never throws. */
  cancel(askId: string, reason: string): Promise<void>;
  /** Voids every credential of the room and forgets it. Idempotent, never throws, ends within 5 s. */
  close(reason: string): Promise<void>;
}

export type RoomErrorKind =
  | "bad_credential"
  | "plan_limit"
  | "rate"
  | "too_big"
  | "unavailable"
  /** The service does not speak as documented. */
  | "mismatch";

/** Why a room could not be opened, used or kept. `message` is for people and holds no secret and no raw body. */
export class RoomError extends Error {
  override readonly name = "RoomError";
  readonly kind: RoomErrorKind;
  readonly code: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: RoomErrorKind,
    message: string,
    more: { code?: string | undefined; retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.kind = kind;
    this.code = more.code;
    this.retryAfterMs = more.retryAfterMs;
  }
}

/** See the notifier contract: `active` proven, `failing` refused, `readable` no verdict. */
export type CheckResult =
  | { readonly status: "active" }
  | { readonly status: "failing"; readonly reason: string }
  | { readonly status: "readable"; readonly reason: string };

export interface RoomProvider extends Closable {
  /** Throws {@link RoomError}; anything else is a bug. */
  open(request: OpenRoom, signal: AbortSignal): Promise<Room>;
  check(signal: AbortSignal): Promise<CheckResult>;
  /**
   * After a restart: the reply that a room outside this process kept for the mesh, or `undefined` when none can be had.
   * `label` is the lost room's. Left out by providers whose rooms die with the process.
   */
  recover?(label: string, askId: string, signal: AbortSignal): Promise<DeviceEnvelope | undefined>;
}

/** What differs between providers, as data; docs/rooms.md is generated from it. Sentences are for operators, in Markdown. */
export interface RoomTraits {
  /** What the device gets, in a few words: "one-use token", "topic and per-room key". */
  readonly credential: string;
  /** What tells the mesh that the device joined. */
  readonly joinSignal: string;
  /** Time until an unclean loss of the device is seen. */
  readonly lossSeenWithinMs: number;
  /** Largest task in bytes; `undefined` where the service says it on connecting. */
  readonly maxTaskBytes: number | undefined;
  /** Steps on the provider's side before the record works, in order. Empty when there are none. */
  readonly setUp: readonly string[];
  /** What `active` proves, as the end of "the test proves that". */
  readonly checkProves: string;
}

export type OptionsSchema = z.ZodObject<z.ZodRawShape, z.core.$strict>;

export interface RoomDefinition<Options extends OptionsSchema = OptionsSchema> {
  readonly provider: string;
  readonly title: string;
  readonly description: string;
  readonly options: Options;
  readonly packages?: readonly string[] | undefined;
  readonly traits: RoomTraits;
  /** What must hold for the record to serve as a room, beyond its schema. */
  validate?(options: z.output<Options>, facts: { readonly publicUrl?: string | undefined }): readonly OptionIssue[];
  create(options: z.output<Options>, dependencies: ProviderDependencies): RoomProvider;
}

export interface OptionIssue {
  readonly path: readonly string[];
  readonly message: string;
}

/** Declares a provider; see `defineNotifier`. */
export function defineRoom<Options extends OptionsSchema>(definition: RoomDefinition<Options>): RoomDefinition {
  return definition as unknown as RoomDefinition;
}
