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
  cut(ring: Ring, how?: { readonly forGood: boolean }): void;
  /** Something comes into the room as if from the room's device, or from somebody else who got in. */
  inject?(ring: Ring, from: "device" | "stranger", text: string): void;
  /**
   * Answers the mesh at `phase` as the provider does for this kind until told otherwise; `undefined` when the provider
   * has no such answer. `trouble`: the provider fails and does not say whether it took the message.
   */
  refuse(phase: RefusedPhase, how: RoomErrorKind | "trouble"): (() => void) | undefined;
  /** How many tasks the service took from the mesh. */
  tasksTaken(): number;
  close(): Promise<void>;
}

export interface RoomSuiteOptions {
  /** A clock for the adapter whose waits are short. Default: a fiftieth. */
  readonly clock?: Clock;
  /** What the suite cannot show for this provider, and why. */
  readonly cannot?: {
    /** Only one connection can ever use a ring. */
    readonly secondHolder?: string;
    /** A late ring is refused in another way than as a room that is over. */
    readonly lateJoin?: string;
    readonly resume?: string;
  };
}
