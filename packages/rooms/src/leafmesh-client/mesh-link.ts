/**
 * The mesh's WebSocket into a room: says hello, acknowledges, answers pings, and when the socket is lost comes back with
 * the resume key for as long as the service keeps the seat.
 */

import type { ClientRequestArgs } from "node:http";
import { operatorLookup } from "@leafmesh/guarded-fetch";
import {
  type Clock,
  type Logger,
  mayResumeAfter,
  ROOM_CLOSE,
  ROOM_PROTOCOL_VERSION,
  ROOM_SUBPROTOCOL,
  type RoomLimits,
  type Timer,
  type WelcomeFrame,
} from "@leafmesh/protocol";
import { type ClientOptions, WebSocket } from "ws";
import { RoomError } from "../contract.ts";
import { type IncomingFrame, readFrame } from "./incoming-frame.ts";
import { type AnnouncedLimits, mergeLimits } from "./limits.ts";
import { type Body, type Numbered, Sequence } from "./sequence.ts";

/** The relayed frame has another number than the sender's, which may have more digits. */
const FRAME_SLACK_BYTES = 1024;
/** From the first packet to the welcome. */
const WELCOME_MS = 5000;
const CLOSE_TIMEOUT_MS = 1000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;
const CLIENT = { name: "leafmesh", version: "1" };

/** Why a link is over for good, though the mesh did not close it. */
export interface LinkEnd {
  /** The service's word that the room is over; otherwise the seat was lost and the room may live on. */
  readonly closing: string | undefined;
  /** The WebSocket close code, 1006 when there was none. */
  readonly code: number;
}

export interface LinkHandlers {
  /** A sequenced frame for the mesh, once and in order. */
  frame(frame: { readonly type: string }): void;
  /** The service refused a frame of the mesh. */
  refused(code: string, seq: number | undefined): void;
  /** Called once; nothing comes after it. */
  ended(end: LinkEnd): void;
}

export interface LinkOptions {
  readonly url: string;
  readonly room: string;
  /** Opens the seat; used once. */
  readonly token: string;
  readonly limits: AnnouncedLimits;
  /** Goes on with the numbers of a seat that this one takes the place of. */
  readonly sequence?: Sequence | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

type Hello = { readonly token: string } | { readonly resume: { readonly key: string; readonly recv: number } };

export class MeshLink {
  readonly #options: LinkOptions;
  readonly #handlers: LinkHandlers;
  readonly sequence: Sequence;
  #limits: RoomLimits;
  #webSocket: WebSocket | undefined;
  #state: "down" | "up" | "over" = "down";
  #resumeKey = "";
  #resumeUntilMs = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #heardAtMs = 0;
  #closing: string | undefined;
  #timer: Timer | undefined;
  #ackIsDue = false;
  readonly #waiting = new Set<() => void>();

  private constructor(options: LinkOptions, handlers: LinkHandlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.#limits = mergeLimits(options.limits);
    this.sequence = options.sequence ?? new Sequence();
  }

  /** Takes the seat. Throws {@link RoomError} and leaves nothing open. */
  static async open(options: LinkOptions, handlers: LinkHandlers, signal: AbortSignal): Promise<MeshLink> {
    const link = new MeshLink(options, handlers);
    let abort = (): void => {};
    try {
      await new Promise<void>((resolve, reject) => {
        abort = () => reject(new RoomError("unavailable", "The room could not be joined in time."));
        if (signal.aborted) abort();
        signal.addEventListener("abort", abort, { once: true });
        link.#connect({ token: options.token }, WELCOME_MS, resolve, (code) => reject(joinError(code)));
      });
    } catch (error) {
      link.close();
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
    return link;
  }

  get limits(): RoomLimits {
    return this.#limits;
  }

  /** Sends a frame if the socket is up, and again after a resume until the service has it. Its number, or `undefined`. */
  send(body: Body): number | undefined {
    if (this.#state !== "up") return undefined;
    const frame = this.sequence.add(body);
    this.#write(frame);
    return frame.seq;
  }

  /** Resolves when the socket is up again, when it never will be, or after `withinMs`; at once when it is up. */
  async whenUp(withinMs: number, signal: AbortSignal): Promise<void> {
    if (this.#state !== "down" || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        timer.cancel();
        signal.removeEventListener("abort", wake);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = this.#options.clock.schedule(withinMs, wake);
      signal.addEventListener("abort", wake, { once: true });
      this.#waiting.add(wake);
    });
  }

  /** Gives the seat up. Idempotent. */
  close(): void {
    if (this.#state === "up") this.#write({ type: "leave" });
    this.#over();
    this.#webSocket?.close(ROOM_CLOSE.finished);
  }

  // ── one socket ────────────────────────────────────────────────────────────────────────────────────────────────

  /** Exactly one of the two is called, once: the service welcomed us, or the socket closed before it did. */
  #connect(hello: Hello, withinMs: number, onWelcome: () => void, onFailed: (code: number) => void): void {
    const { clock, url, room, logger } = this.#options;
    const options: ClientOptions & ClientRequestArgs & { readonly closeTimeout: number } = {
      perMessageDeflate: false,
      followRedirects: false,
      maxPayload: this.#limits.frame + FRAME_SLACK_BYTES,
      closeTimeout: CLOSE_TIMEOUT_MS,
      lookup: operatorLookup,
    };
    const webSocket = new WebSocket(url, ROOM_SUBPROTOCOL, options);
    this.#webSocket = webSocket;
    this.#timer = clock.schedule(withinMs, () => webSocket.terminate());
    let isWelcome = false;
    const over = (code: number): void => {
      this.#webSocket = undefined;
      this.#timer?.cancel();
      if (this.#state === "over") return;
      if (isWelcome) this.#onLost(code);
      else onFailed(code);
    };
    const giveUp = (problem: string): void => {
      logger.warn("a room service broke the protocol", { room, problem });
      webSocket.close(ROOM_CLOSE.badFrame, problem);
      over(ROOM_CLOSE.badFrame);
    };
    webSocket.on("open", () => {
      this.#write({ type: "hello", v: ROOM_PROTOCOL_VERSION, client: CLIENT, ...hello });
    });
    webSocket.on("message", (data, isBinary) => {
      if (webSocket !== this.#webSocket || this.#state === "over") return;
      this.#heardAtMs = clock.monotonicMs();
      const frame = isBinary ? undefined : readFrame(data.toString());
      if (frame?.type === "welcome" && !isWelcome) {
        if (frame.seat !== "mesh" || frame.room !== room) return giveUp("welcomed the mesh to another seat");
        isWelcome = true;
        this.#timer?.cancel();
        this.#onWelcome(frame, "token" in hello);
        this.#watch(webSocket);
        onWelcome();
        return;
      }
      const problem = frame ? this.#onFrame(frame) : "sent something that is not a frame";
      if (problem) giveUp(problem);
    });
    // The close event follows and says what matters.
    webSocket.on("error", (error) => logger.debug("a room socket failed", { error: error.message }));
    webSocket.on("close", (code) => {
      if (webSocket === this.#webSocket) over(code);
    });
  }

  #onWelcome(welcome: WelcomeFrame, isNew: boolean): void {
    this.#limits = mergeLimits(this.#limits, welcome.limits);
    this.#resumeKey = welcome.resume_key;
    this.#pauseMs = FIRST_PAUSE_MS;
    if (isNew) this.sequence.startAnew(welcome.recv);
    this.#state = "up";
    for (const frame of this.sequence.unstored(welcome.recv)) this.#write(frame);
    this.#wake();
  }

  /** Answers what is wrong with the frame, if something is. */
  #onFrame(frame: IncomingFrame): string | undefined {
    switch (frame.type) {
      case "ack":
        this.sequence.stored(frame.seq);
        return undefined;
      case "ping":
        this.#write({ ...frame, type: "pong" });
        return undefined;
      case "error":
        this.#handlers.refused(frame.code, frame.ref_seq);
        return undefined;
      case "closing":
        this.#closing = frame.reason;
        return undefined;
      case "welcome":
      case "pong":
      case "x-":
        return undefined;
      default:
        return this.#onSequenced(frame);
    }
  }

  #onSequenced(frame: Numbered): string | undefined {
    const what = this.sequence.take(frame.seq);
    if (what === "gap") return "left a gap in its sequence";
    this.#acknowledge();
    if (what === "new") this.#handlers.frame(frame);
    return undefined;
  }

  /** One acknowledgement for everything that came in one piece. */
  #acknowledge(): void {
    if (this.#ackIsDue) return;
    this.#ackIsDue = true;
    process.nextTick(() => {
      this.#ackIsDue = false;
      if (this.#state === "up") this.#write({ type: "ack", seq: this.sequence.received });
    });
  }

  #write(frame: Body): void {
    this.#webSocket?.send(JSON.stringify(frame));
  }

  /** The service pings a silent seat; if nothing comes for longer than it promised, it is not there. */
  #watch(webSocket: WebSocket): void {
    const { clock } = this.#options;
    const patienceMs = (this.#limits.idle_s + this.#limits.dead_s) * 1000;
    const leftMs = this.#heardAtMs + patienceMs - clock.monotonicMs();
    this.#timer = clock.schedule(Math.max(leftMs, 1), () => {
      if (clock.monotonicMs() - this.#heardAtMs >= patienceMs) webSocket.terminate();
      else this.#watch(webSocket);
    });
  }

  // ── coming back ───────────────────────────────────────────────────────────────────────────────────────────────

  #onLost(code: number): void {
    this.#state = "down";
    if (this.#closing !== undefined || !mayResumeAfter(code)) {
      this.#end(code);
      return;
    }
    this.#resumeUntilMs = this.#options.clock.monotonicMs() + this.#limits.grace_s * 1000;
    this.#resume();
  }

  #resume(): void {
    const hello = { resume: { key: this.#resumeKey, recv: this.sequence.received } };
    const { clock } = this.#options;
    const leftMs = this.#resumeUntilMs - clock.monotonicMs();
    this.#connect(
      hello,
      Math.min(WELCOME_MS, leftMs),
      () => {},
      (code) => {
        if (!mayResumeAfter(code) || clock.monotonicMs() + this.#pauseMs >= this.#resumeUntilMs) {
          this.#end(code);
          return;
        }
        this.#timer = clock.schedule(this.#pauseMs, () => this.#resume());
        this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
      },
    );
  }

  #end(code: number): void {
    if (this.#state === "over") return;
    this.#over();
    this.#handlers.ended({ closing: this.#closing, code });
  }

  #over(): void {
    this.#state = "over";
    this.#timer?.cancel();
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}

function joinError(code: number): RoomError {
  const refused = code >= 4400 && code <= 4499;
  return new RoomError(
    refused ? "mismatch" : "unavailable",
    refused
      ? `The room service refused the mesh at its own room (close code ${code}).`
      : `The room service opened a room that cannot be joined (close code ${code}).`,
    { code: String(code) },
  );
}
