/** A room in a service outside this process, as the mesh holds it. */
import {
  type Clock,
  type JoinInfo,
  type Logger,
  type OpenedRoom,
  type RoomStatus,
  type TaskEnvelope,
  utf8Length,
} from "@leafmesh/protocol";
import { type Delivered, type Room, RoomError, type RoomErrorKind, type RoomEvent, type Sent } from "../contract.ts";
import { taskBytes } from "./limits.ts";
import { type LinkEnd, type LinkHandlers, MeshLink } from "./mesh-link.ts";
import { MeshSeat } from "./mesh-seat.ts";
import type { RoomServiceClient } from "./service-client.ts";
import { pause, withTimeLimit } from "./time-limit.ts";

/** A task that finds the socket down waits for so long that it is back, and never longer. */
const RECONNECT_WAIT_MS = 2000;
/** What closing a room may take, and what asking about a lost one may. */
const SERVICE_MS = 4000;
/** Pauses between attempts to take the seat anew: doubled from the first to the longest. */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 4000;

export interface RemoteRoomRequest {
  readonly opened: OpenedRoom;
  /** When the room ends by itself, as a monotonic time. */
  readonly endsAtMs: number;
  onClosed(room: RemoteRoom): void;
}

export interface RemoteRoomDependencies {
  readonly client: RoomServiceClient;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class RemoteRoom implements Room {
  readonly #request: RemoteRoomRequest;
  readonly #dependencies: RemoteRoomDependencies;
  readonly #seat: MeshSeat;
  readonly #handlers: LinkHandlers;
  readonly #stop = new AbortController();
  #link: MeshLink | undefined;
  #taskSent = false;
  #closing: Promise<void> | undefined;

  private constructor(request: RemoteRoomRequest, dependencies: RemoteRoomDependencies) {
    this.#request = request;
    this.#dependencies = dependencies;
    this.#seat = new MeshSeat(() => (this.#link?.limits.grace_s ?? 0) * 1000);
    this.#handlers = {
      frame: (frame) => this.#seat.receive(frame),
      refused: (code, seq) => this.#seat.refused(code, seq),
      ended: (end) => this.#onLinkEnded(end),
    };
  }

  /** Takes the mesh's seat in a room that was just opened. Throws {@link RoomError} and closes the room then. */
  static async join(
    request: RemoteRoomRequest,
    dependencies: RemoteRoomDependencies,
    signal: AbortSignal,
  ): Promise<RemoteRoom> {
    const room = new RemoteRoom(request, dependencies);
    const { connect_url, mesh_token } = request.opened;
    try {
      room.#link = await room.#takeSeat({ url: connect_url, token: mesh_token }, signal);
      return room;
    } catch (error) {
      // The caller learns at once; the room goes in its own time.
      void room.close();
      throw error;
    }
  }

  get join(): JoinInfo {
    const { connect_url, room_id, device_token } = this.#request.opened;
    return { provider: "room", url: connect_url, room: room_id, token: device_token };
  }

  get label(): string {
    return this.#request.opened.room_id;
  }

  get maxTaskBytes(): number {
    return taskBytes(this.#link?.limits);
  }

  get events(): AsyncIterable<RoomEvent> {
    return this.#seat.events;
  }

  async send(task: TaskEnvelope, signal: AbortSignal): Promise<Sent> {
    if (this.#taskSent) throw new Error("a room takes one task");
    const bytes = utf8Length(JSON.stringify(task));
    if (bytes > this.maxTaskBytes) {
      return notHanded("too_big", `The task has ${bytes} bytes, the room takes ${this.maxTaskBytes}.`);
    }
    await this.#link?.whenUp(RECONNECT_WAIT_MS, signal);
    const { obstacle } = this.#seat;
    if (obstacle !== undefined || signal.aborted) return notHanded("unavailable", obstacle ?? "The ask is over.");
    const seq = this.#link?.send(task);
    if (seq === undefined) return notHanded("unavailable", "The mesh has lost its connection to the room service.");
    this.#taskSent = true;
    this.#seat.sent(seq);
    return { status: "handed" };
  }

  async cancel(askId: string, reason: string): Promise<void> {
    this.#link?.send({ type: "cancel", id: askId, reason: reason.slice(0, 200) });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#seat.finish();
    this.#stop.abort();
    await this.#deleteRoom();
    this.#link?.close();
    this.#request.onClosed(this);
  }

  #takeSeat(at: { readonly url: string; readonly token: string }, signal: AbortSignal): Promise<MeshLink> {
    const { clock, logger } = this.#dependencies;
    const options = {
      ...at,
      room: this.label,
      limits: this.#request.opened.limits,
      sequence: this.#link?.sequence,
      clock,
      logger,
    };
    return MeshLink.open(options, this.#handlers, signal);
  }

  // ── a seat that was lost ──────────────────────────────────────────────────────────────────────────────────────

  #onLinkEnded(end: LinkEnd): void {
    this.#comeBack(end).catch((error: unknown) => {
      this.#dependencies.logger.error("a lost room could not be looked after", { room: this.label, error });
      this.#seat.end(lost(end), this.#seat.deliveredSoFar());
    });
  }

  /** Takes the seat anew where that can be, or finds out how far the task got and ends the room. */
  async #comeBack(end: LinkEnd): Promise<void> {
    if (this.#seat.isOver) return;
    if (end.closing === undefined && (await this.#takeSeatAnew())) return;
    if (this.#seat.isOver) return;
    // Nothing may be handed over any more once the task's fate is told.
    if (end.closing === undefined) await this.#deleteRoom();
    const delivered = this.#seat.deliveredSoFar();
    this.#seat.end(lost(end), delivered === "maybe" ? await this.#deliveredByStatus() : delivered);
  }

  /**
   * With a task under way the answer may lie in the room, so the mesh tries for as long as the room lives (whoever waits
   * for the answer closes it). Before that nothing is at stake and one attempt is enough.
   */
  async #takeSeatAnew(): Promise<boolean> {
    const { clock, logger } = this.#dependencies;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      try {
        return await withTimeLimit(clock, SERVICE_MS, this.#stop.signal, (signal) => this.#tryNewSeat(signal));
      } catch (error) {
        if (!(error instanceof RoomError)) throw error;
        logger.info("the mesh could not take its seat in a room anew", { room: this.label, why: error.message });
        const mayHelp = error.kind === "unavailable" || error.kind === "rate";
        const isWorthIt = this.#taskSent && clock.monotonicMs() + pauseMs < this.#request.endsAtMs;
        if (!mayHelp || !isWorthIt || this.#seat.isOver) return false;
      }
      await pause(clock, pauseMs, this.#stop.signal);
    }
  }

  async #tryNewSeat(signal: AbortSignal): Promise<boolean> {
    const token = await this.#dependencies.client.meshToken(this.label, signal);
    if (!token) return false;
    const link = await this.#takeSeat({ url: token.connect_url, token: token.mesh_token }, signal);
    if (this.#seat.isOver) link.close();
    else this.#link = link;
    return true;
  }

  /** For a room that is over: what the service remembers of the task. */
  async #deliveredByStatus(): Promise<Delivered> {
    const { client, clock } = this.#dependencies;
    try {
      const status = await withTimeLimit(clock, SERVICE_MS, this.#stop.signal, (signal) =>
        client.status(this.label, signal),
      );
      return deliveredBy(status);
    } catch (error) {
      if (!(error instanceof RoomError)) throw error;
      return "maybe";
    }
  }

  /** Best effort, never rejects: a room that cannot be deleted ends with its time. */
  async #deleteRoom(): Promise<void> {
    const { client, clock, logger } = this.#dependencies;
    try {
      await withTimeLimit(clock, SERVICE_MS, undefined, (signal) => client.delete(this.label, signal));
    } catch (error) {
      logger.warn("a room could not be closed; it ends with its time", { room: this.label, error });
    }
  }
}

function deliveredBy(status: RoomStatus | undefined): Delivered {
  if (!status) return "maybe";
  if (status.task.acked || status.task.replied) return "yes";
  return status.state === "closed" && !status.task.handed ? "no" : "maybe";
}

function notHanded(kind: RoomErrorKind, message: string): Sent {
  return { status: "not_handed", error: new RoomError(kind, message) };
}

function lost({ closing, code }: LinkEnd): RoomError {
  return closing === undefined
    ? new RoomError("unavailable", `The mesh lost its seat in the room (close code ${code}).`, { code: String(code) })
    : new RoomError("unavailable", `The room service ended the room: ${closing}.`, { code: closing });
}
