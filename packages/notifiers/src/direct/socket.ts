/** One device's socket: its hello, its liveness, and the rings that wait for a receipt. */
import { createHash, timingSafeEqual } from "node:crypto";
import {
  type Clock,
  DIRECT_CLOSE,
  DIRECT_PROTOCOL_VERSION,
  type DirectDeviceFrame,
  type DirectMeshFrame,
  directDeviceFrameSchema,
  type Timer,
} from "@leafmesh/protocol";
import type { RawData, WebSocket } from "ws";
import type { DirectDelivery, DirectLimits, DirectRing, TokenHash } from "./hub.ts";

/** Above this many unsent bytes the device does not read, and cannot be rung. */
const MAX_UNSENT_BYTES = 64 * 1024;
/** Rings that may wait for their receipts at once. */
const MAX_WAITING_RINGS = 64;

export interface DirectSocketHooks {
  readonly clock: Clock;
  readonly limits: DirectLimits;
  /** The device said who it is. */
  hello(): void;
  /** The socket is closed. Called once. */
  gone(): void;
}

export class DirectSocket {
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  readonly #webSocket: WebSocket;
  readonly #hooks: DirectSocketHooks;
  readonly #waiting = new Set<{ readonly askId: string; settle(delivery: DirectDelivery): void }>();
  #deviceId = "";
  #tokenHash: TokenHash = "";
  #phase: "waiting" | "open" | "over" = "waiting";
  #heardAtMs: number;
  #pinged = false;
  #timer: Timer;

  constructor(webSocket: WebSocket, hooks: DirectSocketHooks) {
    this.#webSocket = webSocket;
    this.#hooks = hooks;
    this.#heardAtMs = hooks.clock.monotonicMs();
    this.#timer = hooks.clock.schedule(hooks.limits.helloWithinMs, () =>
      this.#close(DIRECT_CLOSE.noHello, "no hello in time"),
    );
    webSocket.on("message", (data, isBinary) => this.#message(data, isBinary));
    // The library closes the socket after an error; `close` tells the rest.
    webSocket.on("error", () => {});
    this.closed = new Promise((resolve) => {
      webSocket.on("close", () => {
        this.#over();
        hooks.gone();
        resolve();
      });
    });
  }

  get deviceId(): string {
    return this.#deviceId;
  }

  get tokenHash(): TokenHash {
    return this.#tokenHash;
  }

  /** Whether this is the device that the token belongs to. Takes as long for a wrong token as for the right one. */
  holds(tokenHash: TokenHash): boolean {
    const [mine, theirs] = [Buffer.from(this.#tokenHash), Buffer.from(tokenHash)];
    return this.#phase === "open" && mine.length === theirs.length && timingSafeEqual(mine, theirs);
  }

  ring({ askId, body }: DirectRing, signal: AbortSignal): Promise<DirectDelivery> {
    if (this.#phase !== "open" || this.#waiting.size >= MAX_WAITING_RINGS) return Promise.resolve("no_socket");
    if (this.#webSocket.bufferedAmount > MAX_UNSENT_BYTES) {
      this.#close(DIRECT_CLOSE.tooSlow, "does not read");
      return Promise.resolve("no_socket");
    }
    return new Promise((resolve) => {
      const settle = (delivery: DirectDelivery): void => {
        this.#waiting.delete(waiting);
        patience.cancel();
        signal.removeEventListener("abort", giveUp);
        resolve(delivery);
      };
      const giveUp = (): void => settle("written");
      const waiting = { askId, settle };
      const patience = this.#hooks.clock.schedule(this.#hooks.limits.ackWithinMs, giveUp);
      this.#waiting.add(waiting);
      signal.addEventListener("abort", giveUp);
      this.#send({ type: "ring", body });
    });
  }

  /** A newer socket of the same device and token is there. */
  replace(): void {
    this.#close(DIRECT_CLOSE.replaced, "replaced by a newer socket");
  }

  /** The mesh stops; the device is to come back later. */
  goAway(): void {
    this.#close(DIRECT_CLOSE.goingAway, "the mesh is stopping");
  }

  terminate(): void {
    this.#webSocket.terminate();
  }

  #message(data: RawData, isBinary: boolean): void {
    if (this.#phase === "over") return;
    this.#heardAtMs = this.#hooks.clock.monotonicMs();
    this.#pinged = false;
    const value = isBinary ? undefined : parse(data.toString());
    const frame = directDeviceFrameSchema.safeParse(value);
    if (frame.success) this.#frame(frame.data);
    else if (!isExtension(value)) this.#close(DIRECT_CLOSE.badFrame, "not a frame of the protocol");
  }

  #frame(frame: DirectDeviceFrame): void {
    if (frame.type === "hello") {
      this.#hello(frame);
      return;
    }
    if (this.#phase === "waiting") {
      this.#close(DIRECT_CLOSE.badFrame, "hello comes first");
      return;
    }
    switch (frame.type) {
      case "ring.received":
        for (const { askId, settle } of [...this.#waiting]) if (askId === frame.ask) settle("received");
        return;
      case "ping":
        this.#send({ type: "pong" });
        return;
      case "pong":
        return;
      default:
        frame satisfies never;
    }
  }

  #hello(hello: Extract<DirectDeviceFrame, { type: "hello" }>): void {
    if (this.#phase !== "waiting") {
      this.#close(DIRECT_CLOSE.badFrame, "hello twice");
      return;
    }
    if (hello.v !== DIRECT_PROTOCOL_VERSION) {
      this.#close(DIRECT_CLOSE.unsupportedVersion, `version ${DIRECT_PROTOCOL_VERSION} is spoken here`);
      return;
    }
    this.#timer.cancel();
    this.#phase = "open";
    this.#deviceId = hello.id;
    this.#tokenHash = createHash("sha256").update(hello.token).digest("hex");
    const { idleMs, deadMs } = this.#hooks.limits;
    this.#watch(idleMs);
    this.#hooks.hello();
    this.#send({ type: "welcome", v: DIRECT_PROTOCOL_VERSION, idle_s: idleMs / 1000, dead_s: deadMs / 1000 });
  }

  /** One timer for both questions; what comes in merely moves the time that it compares with. */
  #watch(afterMs: number): void {
    const { clock, limits } = this.#hooks;
    this.#timer = clock.schedule(afterMs, () => {
      const silentMs = clock.monotonicMs() - this.#heardAtMs;
      const limitMs = this.#pinged ? limits.idleMs + limits.deadMs : limits.idleMs;
      if (silentMs < limitMs) {
        this.#watch(limitMs - silentMs);
      } else if (this.#pinged) {
        this.#over();
        this.#webSocket.terminate();
      } else {
        this.#pinged = true;
        this.#send({ type: "ping" });
        this.#watch(limits.deadMs);
      }
    });
  }

  #send(frame: DirectMeshFrame): void {
    if (this.#webSocket.readyState === this.#webSocket.OPEN) this.#webSocket.send(JSON.stringify(frame));
  }

  #close(code: number, reason: string): void {
    if (this.#phase === "over") return;
    this.#over();
    this.#webSocket.close(code, reason);
  }

  #over(): void {
    this.#phase = "over";
    this.#timer.cancel();
    for (const { settle } of [...this.#waiting]) settle("no_socket");
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Frame types that start with `x-` are somebody's extension and ignored. */
function isExtension(value: unknown): boolean {
  return typeof value === "object" && value !== null && "type" in value && String(value.type).startsWith("x-");
}
