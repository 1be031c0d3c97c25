import type { Duplex } from "node:stream";
import { type HelloFrame, ROOM_CLOSE, ROOM_PROTOCOL_VERSION, type Timer } from "@leafmesh/protocol";
import type { RawData, WebSocket } from "ws";
import type { Link } from "./link.ts";
import { type ControlFrame, type OutboundFrame, parseFrame, type SeatFrame } from "./room/frames.ts";
import type { LinkId, Violation } from "./room/state.ts";
import { hashResumeKey, newResumeKey, type RoomHost, roomOfResumeKey } from "./room-host.ts";
import type { Rooms, ServiceContext } from "./rooms.ts";
import { TokenBucket } from "./token-bucket.ts";

/** The longest reason that fits a close frame (RFC 6455, 5.5). */
const MAX_CLOSE_REASON_BYTES = 123;
/** An acknowledgement waits this long for a frame to go with, as TCP's do: a packet costs more than what it says. */
const ACK_DELAY_MS = 10;
/** https://github.com/websockets/ws/blob/master/doc/ws.md#ws-error-codes */
const TOO_LARGE = "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";

export interface ConnectionContext extends ServiceContext {
  readonly rooms: Rooms;
}

/** What the service wants to know of a connection's life. */
export interface ConnectionEvents {
  /** It has a seat, or is over: it no longer counts as waiting. Called once. */
  settled(): void;
  /** Its socket is closed. Called once. */
  gone(): void;
}

/**
 * One WebSocket from its opening on: `hello` in time, then frames of one seat. Keeps what belongs to the socket and not
 * to the room: parsing, rate, liveness, the backlog of a reader that does not read.
 */
export class Connection implements Link {
  readonly #webSocket: WebSocket;
  readonly #socket: Duplex;
  readonly #context: ConnectionContext;
  readonly #events: ConnectionEvents;
  readonly #bucket: TokenBucket;
  /** Sent between `hello` and its answer; the rate bounds them. */
  readonly #early: (readonly [frame: SeatFrame, bytes: number])[] = [];
  #phase: "waiting" | "verifying" | "seated" | "over" = "waiting";
  #timer: Timer | undefined;
  #seat: { readonly host: RoomHost; readonly link: LinkId } | undefined;
  #heardAtMs: number;
  #pausedAtMs = 0;
  #pinged = false;
  #highestAck = 0;
  #corked = false;
  #flushesLater = false;
  #ackDue: { readonly seq: number; readonly timer: Timer } | undefined;

  constructor(webSocket: WebSocket, socket: Duplex, context: ConnectionContext, events: ConnectionEvents) {
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#context = context;
    this.#events = events;
    const nowMs = context.clock.monotonicMs();
    this.#heardAtMs = nowMs;
    this.#bucket = new TokenBucket({ burst: context.limits.burst, perSecond: context.limits.rate }, nowMs);
    this.#timer = context.clock.schedule(context.bounds.helloMs, () =>
      this.#fail(ROOM_CLOSE.noHello, "no hello in time"),
    );
    webSocket.on("message", (data, isBinary) => this.#guard(() => this.#onMessage(data, isBinary)));
    webSocket.on("ping", (data) => {
      if (this.#onSignal()) webSocket.pong(data);
    });
    webSocket.on("pong", () => void this.#onSignal());
    webSocket.on("error", (error) => this.#onError(error));
    webSocket.on("close", () => this.#onClose());
  }

  // ── as the room sees it ───────────────────────────────────────────────────────────────────────────────────────

  send(frame: OutboundFrame): void {
    if (this.#phase === "over") return;
    if (frame.type === "ack") {
      this.#acknowledgeSoon(frame.seq);
      return;
    }
    this.#acknowledge();
    this.#write(frame);
    const { buffer_bytes, frame: largest } = this.#context.limits;
    if (this.#webSocket.bufferedAmount > buffer_bytes + 2 * largest) {
      this.#drop("dropped");
      this.close(ROOM_CLOSE.tooSlow, "does not read");
    }
  }

  close(code: number, reason: string): void {
    if (this.#phase === "over") return;
    this.#acknowledge();
    this.#settle("over");
    this.#timer?.cancel();
    // A paused socket would not see the other side's answer to the close frame.
    this.#webSocket.resume();
    this.#webSocket.close(code, closeReason(reason));
  }

  pause(): void {
    this.#pausedAtMs = this.#context.clock.monotonicMs();
    this.#webSocket.pause();
  }

  /** What a client sent at its proper rate meanwhile comes in at once; neither that nor its silence is its fault. */
  unpause(): void {
    this.#heard();
    this.#bucket.credit(this.#heardAtMs - this.#pausedAtMs);
    this.#webSocket.resume();
  }

  /** For a service that ends: whoever has no seat yet may try another process. */
  goAway(): void {
    this.close(ROOM_CLOSE.shuttingDown, "shutting down");
  }

  /** Without a closing handshake. */
  terminate(): void {
    this.#webSocket.terminate();
  }

  // ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#phase === "over") return;
    this.#heard();
    if (isBinary || !Buffer.isBuffer(data)) {
      this.#fail(ROOM_CLOSE.badFrame, "frames are text");
      return;
    }
    const parsed = parseFrame(data.toString());
    if (parsed.kind === "malformed") {
      this.#fail(ROOM_CLOSE.badFrame, `frame ${parsed.why}`);
      return;
    }
    const isFree = parsed.kind === "seat" && parsed.frame.type === "ack" && parsed.frame.seq > this.#highestAck;
    if (!isFree && !this.#withinRate()) return;
    switch (parsed.kind) {
      case "hello":
        if (this.#phase !== "waiting") {
          this.#fail(ROOM_CLOSE.badFrame, "hello twice");
          return;
        }
        this.#onHello(parsed.frame);
        return;
      case "seat":
        this.#onSeatFrame(parsed.frame, data.byteLength);
        return;
      case "control":
        this.#onControl(parsed.frame);
        return;
      case "extension":
        return;
      default:
        parsed satisfies never;
    }
  }

  #onHello(hello: HelloFrame): void {
    if (hello.v !== ROOM_PROTOCOL_VERSION) {
      this.#fail(ROOM_CLOSE.unsupportedVersion, `version ${ROOM_PROTOCOL_VERSION} is spoken here`);
      return;
    }
    if (hello.resume) {
      this.#resume(hello.resume);
      return;
    }
    if (hello.token === undefined) {
      this.#fail(ROOM_CLOSE.badFrame, "hello needs a token or a resume");
      return;
    }
    this.#phase = "verifying";
    this.#join(hello, hello.token).catch((error: unknown) => this.#onBug(error));
  }

  #resume(resume: NonNullable<HelloFrame["resume"]>): void {
    const roomId = roomOfResumeKey(resume.key);
    const host = this.#context.rooms.host(roomId);
    if (!host) {
      this.close(ROOM_CLOSE.noSuchRoom, "no such room");
      return;
    }
    const link = this.#enter(host);
    host.dispatch({
      type: "resume",
      link,
      hash: hashResumeKey(resume.key),
      received: resume.recv,
      resume: newResumeKey(roomId),
    });
    this.#seated();
  }

  async #join(hello: HelloFrame, token: string): Promise<void> {
    const claims = await this.#context.tokens.verify(token);
    if (this.#phase !== "verifying") return;
    const host = claims && this.#context.rooms.host(claims.room);
    // One answer for a token that is not genuine and for a room that does not exist.
    if (!claims || !host) return this.close(ROOM_CLOSE.tokenRefused, "token refused");
    const link = this.#enter(host);
    const { seat, jti } = claims;
    if (hello.refuse) host.dispatch({ type: "refuse", seat, link, jti });
    else {
      const capabilities = seat === "device" ? hello.capabilities : undefined;
      host.dispatch({ type: "join", seat, link, jti, resume: newResumeKey(claims.room), capabilities });
    }
    this.#seated();
  }

  #enter(host: RoomHost): LinkId {
    const link = host.addLink(this);
    this.#seat = { host, link };
    return link;
  }

  #seated(): void {
    if (this.#phase === "over") return;
    this.#settle("seated");
    this.#timer?.cancel();
    this.#watch();
    for (const [frame, bytes] of this.#early.splice(0)) this.#onSeatFrame(frame, bytes);
  }

  #onSeatFrame(frame: SeatFrame, bytes: number): void {
    if (this.#phase === "waiting") {
      this.#fail(ROOM_CLOSE.badFrame, "hello comes first");
      return;
    }
    if (this.#phase === "verifying") {
      this.#early.push([frame, bytes]);
      return;
    }
    if (!this.#seat || this.#phase === "over") return;
    if (frame.type === "ack") this.#highestAck = Math.max(this.#highestAck, frame.seq);
    this.#seat.host.dispatch({ type: "frame", link: this.#seat.link, frame, bytes });
  }

  #onControl(frame: ControlFrame): void {
    if (this.#phase === "waiting") {
      this.#fail(ROOM_CLOSE.badFrame, "hello comes first");
      return;
    }
    if (frame.type === "ping") this.send({ ...frame, type: "pong" });
  }

  /** A ping or pong of the WebSocket itself; whether it is within the rate. */
  #onSignal(): boolean {
    if (this.#phase === "over") return false;
    this.#heard();
    return this.#withinRate();
  }

  #withinRate(): boolean {
    if (this.#bucket.take(this.#context.clock.monotonicMs()).taken) return true;
    const { rate, burst } = this.#context.limits;
    const message = `${rate} frames a second, ${burst} at once`;
    this.send({ type: "error", code: "rate", message, temporary: true });
    this.#drop("dropped");
    this.close(ROOM_CLOSE.rate, message);
    return false;
  }

  // ── liveness and the end ──────────────────────────────────────────────────────────────────────────────────────

  #heard(): void {
    this.#heardAtMs = this.#context.clock.monotonicMs();
    this.#pinged = false;
  }

  /** One timer for both questions, set again only when it fires: what comes in merely moves the time it compares with. */
  #watch(): void {
    const { clock, limits } = this.#context;
    const patienceMs = (this.#pinged ? limits.idle_s + limits.dead_s : limits.idle_s) * 1000;
    const leftMs = this.#heardAtMs + patienceMs - clock.monotonicMs();
    this.#timer = clock.schedule(Math.max(leftMs, 1), () => {
      if (this.#webSocket.isPaused) this.#heard();
      const silentMs = clock.monotonicMs() - this.#heardAtMs;
      if (silentMs >= (limits.idle_s + limits.dead_s) * 1000) return this.#die();
      if (!this.#pinged && silentMs >= limits.idle_s * 1000) {
        this.#pinged = true;
        this.send({ type: "ping" });
      }
      if (this.#phase === "seated") this.#watch();
    });
  }

  #die(): void {
    this.#drop("dropped");
    this.#settle("over");
    this.#webSocket.terminate();
  }

  #fail(code: number, reason: string): void {
    this.#drop("protocol");
    this.close(code, reason);
  }

  #onError(error: Error): void {
    // The library has closed a socket that broke the framing; a broken connection is no offence.
    const code = "code" in error ? String(error.code) : "";
    if (code.startsWith("WS_ERR_")) this.#drop(code === TOO_LARGE ? "too_large" : "protocol");
  }

  #onClose(): void {
    this.#drop("dropped");
    this.#timer?.cancel();
    this.#ackDue?.timer.cancel();
    this.#settle("over");
    this.#events.gone();
  }

  /** A mistake of ours must end this one connection, not the process. */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#onBug(error);
    }
  }

  #onBug(error: unknown): void {
    this.#context.logger.error("a room connection failed", { error });
    this.#drop("dropped");
    this.close(ROOM_CLOSE.internal, "internal error");
  }

  #drop(how: "dropped" | Violation): void {
    const seat = this.#seat;
    this.#seat = undefined;
    seat?.host.drop(seat.link, how);
  }

  #settle(phase: "seated" | "over"): void {
    const waited = this.#phase === "waiting" || this.#phase === "verifying";
    this.#phase = phase;
    if (waited) this.#events.settled();
  }

  /** Nobody waits for an acknowledgement: it goes with the next frame, or by itself a little later. */
  #acknowledgeSoon(seq: number): void {
    const timer = this.#ackDue?.timer ?? this.#context.clock.schedule(ACK_DELAY_MS, () => this.#acknowledge());
    this.#ackDue = { seq, timer };
  }

  #acknowledge(): void {
    if (!this.#ackDue) return;
    const { seq, timer } = this.#ackDue;
    this.#ackDue = undefined;
    timer.cancel();
    if (this.#phase !== "over") this.#write({ type: "ack", seq });
  }

  /** Frames that are sent in one go leave in one packet. */
  #write(frame: OutboundFrame): void {
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
    }
    if (frame.type === "welcome" && frame.seat === "device") this.#flushLater();
    else if (!this.#flushesLater || frame.type !== "peer") process.nextTick(() => this.#flush());
    this.#webSocket.send(JSON.stringify(frame));
  }

  /** A device's task follows its welcome as soon as the mesh has stored it: two turns of the loop are time enough. */
  #flushLater(): void {
    this.#flushesLater = true;
    setImmediate(() => setImmediate(() => this.#flush()));
  }

  #flush(): void {
    if (!this.#corked) return;
    this.#flushesLater = false;
    this.#corked = false;
    this.#socket.uncork();
  }
}

function closeReason(reason: string): string {
  return reason.replace(/[^\x20-\x7e]/g, "?").slice(0, MAX_CLOSE_REASON_BYTES);
}
