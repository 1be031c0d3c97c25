/** What a provider lends to its conformance suite: its adapter, its device's connector, and a service that obeys the test. */
import type { Capability, Clock, DeviceEnvelope, MeshEnvelope, Ring } from "@leafmesh/protocol";
import type { RoomDefinition, RoomErrorKind } from "@leafmesh/rooms/contract";

/** The device kit's `DeviceRoom`, as far as the suite looks. */
export interface SuiteDeviceRoom {
  readonly maxEnvelopeBytes: number;
  readonly events: AsyncIterable<SuiteDeviceEvent>;
  send(envelope: DeviceEnvelope): "queued" | "too_large" | "ended" | "dropped";
  acked(signal: AbortSignal): Promise<boolean>;
  leave(reason: string): Promise<void>;
}

export type SuiteDeviceEvent =
  | { readonly type: "envelope"; readonly envelope: MeshEnvelope }
  | { readonly type: "away" }
  | { readonly type: "back" }
  | { readonly type: "closed"; readonly reason: string; readonly detail: string };

/** The device kit's `Connector`. */
export interface SuiteConnector {
  readonly providers: readonly string[];
  join(
    ring: Ring,
    options: { readonly capabilities?: readonly Capability[] | undefined; readonly signal: AbortSignal },
  ): Promise<SuiteDeviceRoom>;
  refuse(ring: Ring, signal: AbortSignal): Promise<void>;
}

/** Where a service can refuse the mesh. */
export type RefusedPhase = "open" | "send";

/** The provider's service for one test. */
export interface RoomServiceUnderTest {
  readonly definition: RoomDefinition;
  /** Fields of a connection that works. */
  readonly record: Readonly<Record<string, string>>;
  /** Texts that must be nowhere but in the record. */
  readonly secrets: readonly string[];
  connector(): SuiteConnector;
  /** The device's connection is gone without a word. With `forGood` it cannot come back. */
  cut(ring: Ring, how?: { readonly forGood: boolean }): Promise<void> | void;
  /** Something comes into the room as if from the room's device, or from somebody else who got in. */
  inject?(ring: Ring, from: "device" | "stranger", text: string): Promise<void> | void;
  /**
   * Answers the mesh at `phase` as the provider does for this kind until told otherwise; `undefined` when the provider
   * has no such answer. `trouble`: the provider fails and does not say whether it took the message.
   */
  refuse(phase: RefusedPhase, how: RoomErrorKind | "trouble"): (() => void) | undefined;
  /** How many tasks the service took from the mesh, where it tells. */
  tasksTaken?(): Promise<number> | number;
  /** After a cut for good: the device's network is there again, and it may try. */
  restore?(ring: Ring): void;
  /** The device's last message comes again, as from a service that delivers at least once. */
  repeat?(ring: Ring): Promise<void>;
  /** The time of every credential that was given out until now runs out. */
  expire?(): void;
  /** The provider ends this room, without the mesh or the device asking. */
  end?(ring: Ring): Promise<void> | void;
  /** The provider answers nothing any more and closes nothing. The result undoes it. */
  stall?(): () => void;
  /** Another record, or the same one with the provider changed, so that the test on save comes out like this. */
  refuseCheck?(
    how: "failing" | "readable",
  ): Promise<Readonly<Record<string, string>>> | Readonly<Record<string, string>>;
  close(): Promise<void>;
}

export interface RoomSuiteOptions {
  /** A clock for the adapter whose waits are short. Default: a fiftieth. */
  readonly clock?: Clock;
  /** A task that is sent while the device is away is kept for it by the service and comes when it is back. */
  readonly holdsTask?: boolean;
  /** What the suite cannot show for this provider, and why: a sentence each, which names the tests that are skipped. */
  readonly cannot?: {
    /** Only one connection can ever use a ring. */
    readonly secondHolder?: string;
    /** A late ring is refused in another way than as a room that is over. */
    readonly lateJoin?: string;
    readonly resume?: string;
    /** Who has no ring gets nowhere near the room, so that nothing is dropped. */
    readonly stranger?: string;
    /** What is dropped for its size is not known to come from the room's device. */
    readonly tooLarge?: string;
    /** The adapter's `repeat`, `expire`, `end`, `stall` or a verdict of its test that do not exist for this provider. */
    readonly repeat?: string;
    readonly expire?: string;
    readonly end?: string;
    readonly stall?: string;
    readonly failing?: string;
    readonly readable?: string;
  };
}
