/**
 * What rooms of each provider can see and keep when a device is lost, for the truth test: its simulated rooms then know
 * no more than the real ones. A provider without an entry is found by tests/structure/rooms.test.ts.
 */
export interface LossProfile {
  /** Longest time until the room says that the device's link is down. */
  readonly seenWithinMs: number;
  /** How long the device may then take to come back. */
  readonly graceMs: number;
  /** A task that finds the device away is kept and comes with its return; where not, it is lost. */
  readonly holdsTask: boolean;
  /**
   * The room knows, when the device is given up, that a task it kept was not delivered, and lets it fall. Where not, the
   * mesh hears `maybe`, and the task may still come.
   */
  readonly takesTaskBack: boolean;
  /** What proves that the task arrived: a receipt of the transport, or only that the device said something about it. */
  readonly provenBy: "receipt" | "word";
  /** The room may hand a task over again that it did not hear of. */
  readonly repeatsTask: boolean;
  /** Rooms outlive the mesh's process and keep the reply for it. */
  readonly keepsReply: boolean;
}

const LEAFMESH_ROOMS: LossProfile = {
  seenWithinMs: 25_000,
  graceMs: 15_000,
  holdsTask: true,
  takesTaskBack: true,
  provenBy: "receipt",
  repeatsTask: true,
  keepsReply: false,
};

/** Of a provider that only moves messages: it takes one and does not say what became of it. */
const MESSAGES: LossProfile = {
  seenWithinMs: 45_000,
  graceMs: 10_000,
  holdsTask: true,
  takesTaskBack: false,
  provenBy: "word",
  repeatsTask: true,
  keepsReply: false,
};

/** By the name of the provider. */
export const lossProfiles: Readonly<Record<string, LossProfile>> = {
  leafmesh: LEAFMESH_ROOMS,
  room: { ...LEAFMESH_ROOMS, keepsReply: true },
  /** The will comes after 1.5 × keepalive and 5 s; the device's session keeps what was sent meanwhile. */
  mqtt: { ...MESSAGES, seenWithinMs: 28_000 },
  ably: MESSAGES,
  pubnub: { ...MESSAGES, seenWithinMs: 25_000 },
  /** Pusher looks after a minute of silence; its cache channel keeps the last event. */
  pusher: { ...MESSAGES, seenWithinMs: 75_000 },
  /** Nothing is kept for a participant that is not there. */
  livekit: { ...MESSAGES, seenWithinMs: 20_000, holdsTask: false, repeatsTask: false },
};
