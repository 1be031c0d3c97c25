import type { Approval, Clock, Logger, NewId, RoomLimits, RoomSeat, RoomStatus } from "@leafmesh/protocol";
import type { ServiceBounds } from "./bounds.ts";
import { mayIssue, type RoomEndReason, type SeatToken } from "./room/state.ts";
import type { StepRoom } from "./room/step.ts";
import { RoomHost, type RoomKeeper } from "./room-host.ts";
import type { SeatTokens } from "./tokens.ts";
import { Tombstones } from "./tombstones.ts";

/** What every part of the service is handed. */
export interface ServiceContext {
  readonly clock: Clock;
  readonly newId: NewId;
  readonly logger: Logger;
  readonly limits: RoomLimits;
  readonly bounds: ServiceBounds;
  readonly tokens: SeatTokens;
  /** The rules of a room; only the tests of the conformance suite put other ones in. */
  readonly step: StepRoom;
}

export interface RoomRequest {
  /** Whose room it is: the API key's name, or the embedding mesh itself. Nobody else can see it. */
  readonly owner: string;
  readonly lifetimeMs: number;
  readonly joinWithinMs: number;
  readonly purpose: "task" | "probe";
  readonly approval?: Approval | undefined;
  /** An opaque hash from the mesh. */
  readonly deviceRef?: string | undefined;
  /** Whether the mesh comes over a socket and needs a token for it. */
  readonly meshToken: boolean;
  readonly onEnded?: (() => void) | undefined;
}

export interface SeatCredential {
  readonly token: string;
  /** Wall clock. */
  readonly expiresAtMs: number;
}

export interface OpenedRoomHost {
  readonly host: RoomHost;
  readonly device: SeatCredential;
  /** Empty when none was asked for. */
  readonly meshToken: string;
}

/** What is known of a room, open or lately closed. */
export type FoundRoom =
  | { readonly state: "open"; readonly host: RoomHost; readonly joinWithinMs: number }
  | { readonly state: "closed"; readonly status: RoomStatus };

interface OpenRoomEntry {
  readonly owner: string;
  readonly host: RoomHost;
  readonly joinWithinMs: number;
  readonly onEnded: (() => void) | undefined;
}

/** All rooms of one process. */
export class Rooms implements RoomKeeper {
  readonly #context: ServiceContext;
  readonly #open = new Map<string, OpenRoomEntry>();
  readonly #perOwner = new Map<string, number>();
  readonly #tombstones: Tombstones;
  #isOver = false;

  constructor(context: ServiceContext) {
    this.#context = context;
    this.#tombstones = new Tombstones(context.clock, context.bounds);
  }

  get size(): number {
    return this.#open.size;
  }

  /** Which bound stands in the way of one more room; `undefined` when none does. */
  fullFor(owner: string): "service" | "owner" | undefined {
    const { rooms, roomsPerKey } = this.#context.bounds;
    if (this.#open.size >= rooms) return "service";
    return (this.#perOwner.get(owner) ?? 0) >= roomsPerKey ? "owner" : undefined;
  }

  async open(request: RoomRequest): Promise<OpenedRoomHost> {
    const { clock, newId, limits, bounds, step, logger } = this.#context;
    const id = newId("room");
    const device = this.#newToken(Math.min(request.joinWithinMs, request.lifetimeMs));
    const mesh = this.#newToken(request.lifetimeMs);
    const [deviceToken, meshToken] = await Promise.all([
      this.#sign(id, "device", device),
      request.meshToken ? this.#sign(id, "mesh", mesh) : undefined,
    ]);
    if (this.#isOver) throw new Error("the room service is shut down");
    const host = new RoomHost(
      {
        id,
        limits,
        drainMs: bounds.drainMs,
        lifetimeMs: request.lifetimeMs,
        tokens: { mesh: mesh.seat, device: device.seat },
      },
      clock,
      step,
      this,
    );
    const { owner, joinWithinMs, onEnded } = request;
    this.#open.set(id, { owner, host, joinWithinMs, onEnded });
    this.#perOwner.set(request.owner, (this.#perOwner.get(request.owner) ?? 0) + 1);
    logger.debug("room opened", {
      room: id,
      purpose: request.purpose,
      ...(request.approval ? { approval: request.approval } : {}),
      ...(request.deviceRef ? { deviceRef: request.deviceRef } : {}),
    });
    return { host, device: deviceToken, meshToken: meshToken?.token ?? "" };
  }

  /** For a hello: whoever shows a genuine token or resume key need not own the room. */
  host(roomId: string): RoomHost | undefined {
    return this.#open.get(roomId)?.host;
  }

  /** For the owner. Somebody else's room is not found. */
  find(roomId: string, owner: string): FoundRoom | undefined {
    const entry = this.#open.get(roomId);
    if (entry) return entry.owner === owner ? { state: "open", ...entry } : undefined;
    const status = this.#tombstones.find(roomId, owner);
    return status && { state: "closed", status };
  }

  /** A new token for a seat; `undefined` when that seat may not be taken any more. */
  async issue(host: RoomHost, seat: RoomSeat, lifetimeMs: number): Promise<SeatCredential | undefined> {
    if (!mayIssue(host.state, seat)) return undefined;
    const left = host.state.expiresAtMs - this.#context.clock.monotonicMs();
    const token = this.#newToken(Math.min(lifetimeMs, left));
    host.dispatch({ type: "issue", seat, jti: token.seat.jti, expiresAtMs: token.seat.expiresAtMs });
    return this.#sign(host.state.id, seat, token);
  }

  /** Ends every room; none is opened after it. */
  endAll(reason: RoomEndReason): void {
    this.#isOver = true;
    for (const { host } of [...this.#open.values()]) host.dispatch({ type: "end", reason });
  }

  #newToken(lifetimeMs: number): { readonly seat: SeatToken; readonly expiresAtMs: number } {
    const { clock, newId } = this.#context;
    return {
      seat: { jti: newId("t"), expiresAtMs: clock.monotonicMs() + lifetimeMs, used: false },
      expiresAtMs: clock.nowMs() + lifetimeMs,
    };
  }

  async #sign(room: string, seat: RoomSeat, token: { seat: SeatToken; expiresAtMs: number }): Promise<SeatCredential> {
    const { tokens } = this.#context;
    return {
      token: await tokens.sign({ room, seat, jti: token.seat.jti }, token.expiresAtMs),
      expiresAtMs: token.expiresAtMs,
    };
  }

  roomEnded(roomId: string, status: RoomStatus): void {
    const entry = this.#open.get(roomId);
    if (!entry) return;
    const { owner, onEnded } = entry;
    this.#open.delete(roomId);
    const left = (this.#perOwner.get(owner) ?? 1) - 1;
    if (left === 0) this.#perOwner.delete(owner);
    else this.#perOwner.set(owner, left);
    this.#tombstones.add(roomId, owner, status);
    this.#context.logger.debug("room ended", {
      room: roomId,
      handed: status.task.handed,
      replied: status.task.replied,
    });
    onEnded?.();
  }
}
