/** One device's socket: its hello, its liveness, and the rings that wait for a receipt. */
import { createHash, timingSafeEqual } from "node:crypto";
import {
  type Clock,
  DIRECT_CLOSE,
  DIRECT_PROTOCOL_VERSION,
  type DirectDeviceFrame,
  type DirectMeshFrame,
  directDeviceFrameSchema,
  MAX_RING_BYTES,
  type Timer,
} from "@leafmesh/protocol";
import type { RawData, WebSocket } from "ws";
import type { DirectDelivery, DirectLimits, DirectRing, TokenHash } from "./hub.ts";

/** Rings that are written and not confirmed yet. More wait in line until one is, or counts as written. */
const MAX_UNCONFIRMED_RINGS = 16;
/** Above this many unsent bytes, which is more than those rings can be, the device does not read. */
const MAX_UNSENT_BYTES = 2 * MAX_UNCONFIRMED_RINGS * MAX_RING_BYTES;
const MAX_RINGS_IN_LINE = 1_000;

export interface DirectSocketHooks {
  readonly clock: Clock;
  readonly limits: DirectLimits;
  /** The device said who it is. */
  hello(): void;
  /** The socket is closed. Called once. */
  gone(): void;
}

interface WaitingRing {
  readonly ring: DirectRing;
  settle(delivery: DirectDelivery): void;
  /** In line, or on its way since it was written. */
  patience: Timer;
}

export class DirectSocket {
  /** Resolves when the socket is closed. */
  readonly closed: Promise<void>;
  readonly #webSocket: WebSocket;
  readonly #hooks: DirectSocketHooks;
  readonly #unconfirmed = new Set<WaitingRing>();
  readonly #inLine = new Set<WaitingRing>();
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

  /** In the order in which they come. A ring that found no room within `ackWithinMs` is `busy`, and was not written. */
  ring(ring: DirectRing, signal: AbortSignal): Promise<DirectDelivery> {
    if (this.#phase !== "open") return Promise.resolve("no_socket");
    if (this.#inLine.size >= MAX_RINGS_IN_LINE) return Promise.resolve("busy");
    return new Promise((resolve) => {
      const settle = (delivery: DirectDelivery): void => {
        waiting.patience.cancel();
        signal.removeEventListener("abort", giveUp);
        this.#inLine.delete(waiting);
        const hadRoom = this.#unconfirmed.delete(waiting);
        resolve(delivery);
        if (hadRoom) this.#writeNext();
      };
      const giveUp = (): void => settle(this.#unconfirmed.has(waiting) ? "written" : "busy");
      const patience = this.#hooks.clock.schedule(this.#hooks.limits.ackWithinMs, giveUp);
      const waiting: WaitingRing = { ring, settle, patience };
      signal.addEventListener("abort", giveUp);
      this.#inLine.add(waiting);
      this.#writeNext();
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
        for (const { ring, settle } of [...this.#unconfirmed]) if (ring.askId === frame.ask) settle("received");
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

  #writeNext(): void {
    for (const waiting of this.#inLine) {
      if (this.#phase !== "open" || this.#unconfirmed.size >= MAX_UNCONFIRMED_RINGS) return;
      if (this.#webSocket.bufferedAmount > MAX_UNSENT_BYTES) {
        this.#close(DIRECT_CLOSE.tooSlow, "does not read");
        return;
      }
      this.#inLine.delete(waiting);
      this.#unconfirmed.add(waiting);
      waiting.patience.cancel();
      waiting.patience = this.#hooks.clock.schedule(this.#hooks.limits.ackWithinMs, () => waiting.settle("written"));
      this.#send({ type: "ring", body: waiting.ring.body });
    }
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
    for (const { settle } of [...this.#unconfirmed, ...this.#inLine]) settle("no_socket");
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
