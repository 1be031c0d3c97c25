import { DEFAULT_ROOM_LIMITS, type RoomLimits } from "@leafmesh/protocol";

/** What one service holds at most, so that no caller can exhaust it. */
export interface ServiceBounds {
  /** Open rooms in all, and per API key. */
  readonly rooms: number;
  readonly roomsPerKey: number;
  /** Openings per API key: how many at once, and how many come back a second. */
  readonly opensBurst: number;
  readonly opensPerSecond: number;
  /** New sockets per client address: how many at once, and how many come back a second. */
  readonly connectsBurst: number;
  readonly connectsPerSecond: number;
  /** How long the head of an HTTP request may take, and the whole of it. For the service's own server only. */
  readonly requestHeadMs: number;
  readonly requestMs: number;
  /** Sockets that have not said `hello` yet. */
  readonly pendingConnections: number;
  /** How long a socket may wait with its `hello`. */
  readonly helloMs: number;
  /** How long a receiver may leave a full buffer standing. */
  readonly drainMs: number;
  /** How long a closed room is remembered, and how many of them. */
  readonly tombstoneMs: number;
  readonly tombstones: number;
}

export const DEFAULT_SERVICE_BOUNDS: ServiceBounds = {
  rooms: 20_000,
  roomsPerKey: 10_000,
  opensBurst: 1000,
  opensPerSecond: 200,
  connectsBurst: 1000,
  connectsPerSecond: 50,
  requestHeadMs: 10_000,
  requestMs: 15_000,
  pendingConnections: 2000,
  helloMs: 5000,
  drainMs: 10_000,
  tombstoneMs: 600_000,
  tombstones: 20_000,
};

/** Fills in the defaults. Throws a `RangeError` that names the field when a number makes no sense. */
export function resolveLimits(limits: Partial<RoomLimits> = {}): RoomLimits {
  return checked({ ...DEFAULT_ROOM_LIMITS, ...limits });
}

export function resolveBounds(bounds: Partial<ServiceBounds> = {}): ServiceBounds {
  return checked({ ...DEFAULT_SERVICE_BOUNDS, ...bounds });
}

function checked<Numbers extends { readonly [Field in keyof Numbers]: number }>(numbers: Numbers): Numbers {
  for (const [field, value] of Object.entries<number>(numbers)) {
    if (!(Number.isFinite(value) && value > 0))
      throw new RangeError(`${field} must be a positive number, not ${value}`);
  }
  return numbers;
}
