/** The device's seat in one room of a LeafMesh room service: hello, sequence numbers, receipts, and coming back. */
import {
  type Backoff,
  type Capability,
  type Clock,
  createBackoff,
  DEFAULT_ROOM_LIMITS,
  type DeviceEnvelope,
  type Logger,
  type MeshEnvelope,
  mayResumeAfter,
  ROOM_CLOSE,
  ROOM_PROTOCOL_VERSION,
  ROOM_SUBPROTOCOL,
  roomLimitsSchema,
  type ServiceFrame,
  serviceFrameSchema,
  type Timer,
  utf8Length,
  type WelcomeFrame,
} from "@leafmesh/protocol";
import { type DeviceRoom, type DeviceRoomEvent, JoinError, type QueueResult, type RoomEnd } from "../connector.ts";
import { createEventQueue } from "../event-queue.ts";
import { isExtension, parseJson } from "../frames.ts";
import { type Liveness, watchLiveness } from "../liveness.ts";
import { openSocket, type Socket, type WebSocketConstructor } from "../socket.ts";
import { joinFault, roomEnd } from "./leafmesh-codes.ts";
import { createOutbox } from "./outbox.ts";

export interface SeatDependencies {
  readonly WebSocket: WebSocketConstructor;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
}

export interface SeatRequest {
  /** The room service's `connect_url`. */
  readonly url: string;
  readonly token: string;
  readonly capabilities: readonly Capability[] | undefined;
}

/** A service may allow larger frames than the default; this is what a device is ready to hold. */
export const MAX_SERVICE_FRAME_BYTES = 1024 * 1024;
export const CLIENT = { name: "leafmesh-device", version: "0.1.0" };
const WELCOME_WITHIN_MS = 10_000;
const LEAVE_WITHIN_MS = 1500;
const MAX_WAITING_EVENTS = 64;
const MAX_WAITING_FRAMES = 32;
/** What the sequence number adds to an envelope's JSON. */
const SEQ_BYTES = 24;

/** Resolves with the seat once the service said `welcome`. Rejects with {@link JoinError}. */
export function takeSeat(
  request: SeatRequest,
  dependencies: SeatDependencies,
  signal: AbortSignal,
): Promise<DeviceRoom> {
  return new Promise((resolve, reject) => {
    const seat = new Seat(request, dependencies, { joined: () => resolve(seat), failed: reject });
    seat.start(signal);
  });
}

interface JoinListener {
  joined(): void;
  failed(error: JoinError): void;
}

type Phase = "joining" | "seated" | "away" | "over";

class Seat implements DeviceRoom {
  readonly #request: SeatRequest;
  readonly #dependencies: SeatDependencies;
  readonly #joining: JoinListener;
  readonly #outbox = createOutbox();
  readonly #events = createEventQueue<DeviceRoomEvent>(MAX_WAITING_EVENTS);
  readonly #backoff: Backoff;
  readonly #waiters = new Set<() => void>();
  #phase: Phase = "joining";
  #socket: Socket | undefined;
  #liveness: Liveness | undefined;
  /** The one timer that is armed between `welcome`s: an answer that is due, or the next try. */
  #timer: Timer | undefined;
  #limits = DEFAULT_ROOM_LIMITS;
  #resumeKey: string | undefined;
  #received = 0;
  #awaySinceMs = 0;
  #lastFault = "no answer yet";
  #closed: () => void = () => {};

  constructor(request: SeatRequest, dependencies: SeatDependencies, joining: JoinListener) {
    this.#request = request;
    this.#dependencies = dependencies;
    this.#joining = joining;
    this.#backoff = createBackoff({ firstMs: 250, longestMs: 5000, random: dependencies.random });
  }

  get maxEnvelopeBytes(): number {
    return Math.min(this.#limits.frame, MAX_SERVICE_FRAME_BYTES) - SEQ_BYTES;
  }

  get events(): AsyncIterable<DeviceRoomEvent> {
    return this.#events;
  }

  start(signal: AbortSignal): void {
    const giveUp = (): void => {
      if (this.#phase !== "joining") return;
      this.#fail("unreachable", `The room was not reached in time: ${this.#lastFault}`);
    };
    if (signal.aborted) {
      giveUp();
      return;
    }
    signal.addEventListener("abort", giveUp, { once: true });
    this.#connect();
  }

  send(envelope: DeviceEnvelope): QueueResult {
    if (this.#phase === "over") return "ended";
    if (utf8Length(JSON.stringify(envelope)) > this.maxEnvelopeBytes) return "too_large";
    if (envelope.type === "progress") {
      if (this.#phase !== "seated" || this.#outbox.unacknowledged().length >= MAX_WAITING_FRAMES) return "dropped";
    }
    const text = this.#outbox.add(envelope);
    if (this.#phase === "seated") this.#socket?.send(text);
    return "queued";
  }

  acked(signal: AbortSignal): Promise<boolean> {
    const target = this.#outbox.lastSeq;
    return new Promise((resolve) => {
      const look = (): void => {
        const done = this.#outbox.ackedSeq >= target;
        if (!done && this.#phase !== "over" && !signal.aborted) return;
        this.#waiters.delete(look);
        signal.removeEventListener("abort", look);
        resolve(done);
      };
      this.#waiters.add(look);
      signal.addEventListener("abort", look);
      look();
    });
  }

  async leave(reason: string): Promise<void> {
    if (this.#phase === "over") return;
    const wasSeated = this.#phase === "seated";
    const socket = this.#socket;
    this.#finish();
    if (!wasSeated || !socket) {
      socket?.abandon(1000, "left");
      return;
    }
    // The close frame travels behind `leave`, so its answer proves that the goodbye arrived.
    await new Promise<void>((resolve) => {
      const bound = this.#dependencies.clock.schedule(LEAVE_WITHIN_MS, resolve);
      this.#closed = () => {
        bound.cancel();
        resolve();
      };
      socket.send(JSON.stringify({ type: "leave", reason: reason.slice(0, 200) }));
      socket.close(ROOM_CLOSE.finished, "left");
    });
    socket.abandon(1000, "left");
  }

  // ── The link ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #connect(): void {
    const socket = openSocket(
      {
        WebSocket: this.#dependencies.WebSocket,
        url: this.#request.url,
        subprotocol: ROOM_SUBPROTOCOL,
        maxBytes: MAX_SERVICE_FRAME_BYTES,
        badFrameCode: ROOM_CLOSE.badFrame,
      },
      {
        open: () => socket.send(JSON.stringify(this.#hello())),
        text: (data) => this.#text(data),
        closed: (code, reason) => this.#dropped(code, reason),
      },
    );
    this.#socket = socket;
    this.#timer = this.#dependencies.clock.schedule(WELCOME_WITHIN_MS, () => {
      socket.abandon(ROOM_CLOSE.finished, "no welcome");
      this.#retry("the service did not answer");
    });
  }

  #hello(): object {
    const hello = { type: "hello", v: ROOM_PROTOCOL_VERSION, client: CLIENT };
    if (this.#resumeKey !== undefined) return { ...hello, resume: { key: this.#resumeKey, recv: this.#received } };
    const { token, capabilities } = this.#request;
    return { ...hello, token, ...(capabilities ? { capabilities } : {}) };
  }

  #dropped(code: number, reason: string): void {
    this.#liveness?.stop();
    this.#timer?.cancel();
    if (this.#phase === "over") {
      this.#closed();
      return;
    }
    const detail = reason === "" ? `closed with ${code}` : `${reason} (${code})`;
    if (mayResumeAfter(code)) this.#retry(detail);
    else if (this.#phase === "joining") this.#fail(joinFault(code), `The room service refused: ${detail}`);
    else this.#over(roomEnd(code), detail);
  }

  /** The link is down, or a try to bring it up failed: waits and tries again while that can help. */
  #retry(why: string): void {
    this.#liveness?.stop();
    this.#lastFault = why;
    const { clock, logger } = this.#dependencies;
    if (this.#phase === "seated") {
      this.#phase = "away";
      this.#awaySinceMs = clock.monotonicMs();
      if (!this.#emit({ type: "away" })) return;
    }
    const waitMs = this.#backoff.nextMs();
    if (this.#phase === "away") {
      // The service may notice a lost link later than this side: idle and dead time come on top of its grace.
      const { idle_s, dead_s, grace_s } = this.#limits;
      const spentMs = clock.monotonicMs() - this.#awaySinceMs + waitMs;
      if (spentMs > (idle_s + dead_s + grace_s) * 1000) {
        this.#over("lost", `the link could not be brought back: ${why}`);
        return;
      }
    }
    logger.info("There is no link to the room; trying again.", { reason: why, wait_ms: waitMs });
    this.#timer = clock.schedule(waitMs, () => this.#connect());
  }

  // ── Frames ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #text(data: string): void {
    this.#liveness?.heard();
    const value = parseJson(data);
    const frame = serviceFrameSchema.safeParse(value);
    if (frame.success) this.#frame(frame.data);
    else if (!isExtension(value)) this.#break(`a frame that is not of the protocol: ${frame.error.issues[0]?.message}`);
  }

  #frame(frame: ServiceFrame): void {
    switch (frame.type) {
      case "welcome":
        this.#welcome(frame);
        return;
      case "task":
      case "cancel": {
        const { seq, ...envelope } = frame;
        if (this.#sequence(seq)) this.#emit({ type: "envelope", envelope: envelope satisfies MeshEnvelope });
        return;
      }
      case "peer":
        this.#sequence(frame.seq);
        return;
      case "ack":
        if (this.#outbox.acknowledge(frame.seq)) this.#wake();
        else this.#break("a receipt for a frame that was never sent");
        return;
      case "ping":
        this.#socket?.send(JSON.stringify({ ...frame, type: "pong" }));
        return;
      case "pong":
        return;
      case "error":
        this.#dependencies.logger.warn("The room service refused a frame.", {
          code: frame.code,
          detail: frame.message,
        });
        return;
      case "closing":
        if (frame.reason !== "shutdown") this.#over(frame.reason, "the service closed the room");
        return;
      case "accepted":
      case "progress":
      case "reply":
        this.#break(`a ${frame.type} frame, which only a device sends`);
        return;
      default:
        frame satisfies never;
    }
  }

  #welcome(welcome: WelcomeFrame): void {
    this.#timer?.cancel();
    if (welcome.v !== ROOM_PROTOCOL_VERSION || welcome.seat !== "device") {
      this.#break(`a welcome to the ${welcome.seat} seat in version ${welcome.v}`);
      return;
    }
    if (!this.#outbox.acknowledge(welcome.recv)) {
      this.#break("a receipt for a frame that was never sent");
      return;
    }
    this.#resumeKey = welcome.resume_key;
    this.#limits = roomLimitsSchema.parse({ ...DEFAULT_ROOM_LIMITS, ...welcome.limits });
    this.#backoff.reset();
    this.#liveness?.stop();
    this.#liveness = watchLiveness({
      clock: this.#dependencies.clock,
      idleMs: this.#limits.idle_s * 1000,
      deadMs: this.#limits.dead_s * 1000,
      ping: () => void this.#socket?.send(JSON.stringify({ type: "ping" })),
      dead: () => {
        this.#socket?.abandon(ROOM_CLOSE.finished, "no sign of life");
        this.#retry("nothing was heard from the service");
      },
    });
    const cameBack = this.#phase === "away";
    const isFirst = this.#phase === "joining";
    this.#phase = "seated";
    for (const text of this.#outbox.unacknowledged()) this.#socket?.send(text);
    if (cameBack) this.#emit({ type: "back" });
    if (isFirst) this.#joining.joined();
    this.#wake();
  }

  /** Whether a frame with this number is the next one; acknowledges it, and a repeat as well. */
  #sequence(seq: number): boolean {
    if (this.#phase !== "seated") {
      this.#break("a frame before the welcome");
      return false;
    }
    if (seq > this.#received + 1) {
      this.#break(`a gap: frame ${seq} after ${this.#received}`);
      return false;
    }
    const isNew = seq === this.#received + 1;
    if (isNew) this.#received = seq;
    this.#socket?.send(JSON.stringify({ type: "ack", seq: this.#received }));
    return isNew;
  }

  // ── Ends ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** False when nobody reads: the room is over then. */
  #emit(event: DeviceRoomEvent): boolean {
    const taken = this.#events.push(event);
    if (!taken) this.#over("protocol", "more events than the device could read");
    return taken;
  }

  #break(what: string): void {
    this.#socket?.abandon(ROOM_CLOSE.badFrame, what.slice(0, 100));
    if (this.#phase === "joining") this.#fail("unsupported", `The room service sent ${what}`);
    else this.#over("protocol", `the service sent ${what}`);
  }

  #over(reason: RoomEnd, detail: string): void {
    if (this.#phase === "over") return;
    this.#finish({ type: "closed", reason, detail });
    this.#socket?.abandon(ROOM_CLOSE.finished, "over");
  }

  #fail(kind: JoinError["kind"], message: string): void {
    this.#finish();
    this.#socket?.abandon(ROOM_CLOSE.finished, "gave up");
    this.#joining.failed(new JoinError(kind, message));
  }

  #finish(last?: DeviceRoomEvent): void {
    this.#phase = "over";
    this.#timer?.cancel();
    this.#liveness?.stop();
    this.#events.end(last);
    this.#wake();
  }

  #wake(): void {
    for (const look of [...this.#waiters]) look();
  }
}
