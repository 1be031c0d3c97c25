/**
 * Being rung over a socket that the device holds to the mesh, without any push provider: the device's side of the
 * `direct` notifier. It works for as long as the program runs, so it suits things, desktops, pages that are open, and tests.
 */
import {
  type Backoff,
  type Clock,
  createBackoff,
  DIRECT_CLOSE,
  DIRECT_PATH,
  DIRECT_PROTOCOL_VERSION,
  DIRECT_SUBPROTOCOL,
  directMeshFrameSchema,
  directTokenSchema,
  type Logger,
  MAX_DIRECT_FRAME_BYTES,
  mayReconnectDirectAfter,
  silentLogger,
  systemClock,
  type Timer,
} from "@leafmesh/protocol";
import { isAllowedSocketAddress } from "./addresses.ts";
import { errorText } from "./error-text.ts";
import { isExtension, parseJson } from "./frames.ts";
import { type Liveness, watchLiveness } from "./liveness.ts";
import { openSocket, runtimeWebSocket, type Socket, type WebSocketConstructor } from "./socket.ts";

/**
 * `ready`: the mesh can ring this device. `connecting`, `waiting`: it cannot now, and the kit is at it. `replaced`: a newer
 * connection with the same id and token took over, such as another tab. `refused`: this mesh does not speak the same
 * version. `closed`: by `close`. The last three are final.
 */
export type DirectState = "connecting" | "ready" | "waiting" | "replaced" | "refused" | "closed";

export interface DirectOptions {
  /** The mesh's direct socket, such as `wss://mesh.example.com/v1/direct`; see {@link directAddress}. */
  readonly url: string;
  /** The device's id, the same as the kit's. */
  readonly id: string;
  /** The secret that the app gives the mesh as this device's push token: at most 512 printable characters. */
  readonly token: string;
  /** Called with the ring's text, as it came. Hand it to `device.handleRing`. */
  readonly onRing: (ring: string) => void;
  readonly onState?: ((state: DirectState, detail: string) => void) | undefined;
  /** The runtime's own unless given. */
  readonly WebSocket?: WebSocketConstructor | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
  readonly random?: (() => number) | undefined;
}

export interface DirectConnection {
  readonly state: DirectState;
  /** Resolves once the mesh can ring this device. Rejects when that will not happen any more. */
  ready(): Promise<void>;
  /** Ends a wait between two tries, for instance when the browser says that it is online again. */
  retryNow(): void;
  /** Takes no more rings. Idempotent. */
  close(): void;
}

/** A welcome must come within this time. */
const WELCOME_WITHIN_MS = 10_000;

/** The direct socket of the mesh at `meshUrl` (http, https, ws or wss). An address with a path is kept as it is. */
export function directAddress(meshUrl: string): string {
  const url = new URL(meshUrl);
  url.protocol = url.protocol.replace(/^http/, "ws");
  if (url.pathname === "/") url.pathname = DIRECT_PATH;
  return url.href;
}

/** Connects, and reconnects until it is closed. Throws a `TypeError` when an option is not usable. */
export function connectDirect(options: DirectOptions): DirectConnection {
  const token = directTokenSchema.safeParse(options.token);
  if (!token.success) throw new TypeError(`connectDirect: token ${token.error.issues[0]?.message}`);
  if (!isAllowedSocketAddress(options.url)) {
    throw new TypeError("connectDirect: url must start with wss://; ws:// is for a mesh on this machine");
  }
  return new Direct(options);
}

class Direct implements DirectConnection {
  readonly #options: DirectOptions;
  readonly #WebSocket: WebSocketConstructor;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #backoff: Backoff;
  readonly #waiters = new Set<{ resolve(): void; reject(error: Error): void }>();
  #state: DirectState = "connecting";
  #socket: Socket | undefined;
  #liveness: Liveness | undefined;
  #timer: Timer | undefined;

  constructor(options: DirectOptions) {
    this.#options = options;
    this.#WebSocket = options.WebSocket ?? runtimeWebSocket();
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
    this.#backoff = createBackoff({ firstMs: 500, longestMs: 30_000, random: options.random ?? Math.random });
    this.#connect();
  }

  get state(): DirectState {
    return this.#state;
  }

  ready(): Promise<void> {
    if (this.#state === "ready") return Promise.resolve();
    if (isFinal(this.#state)) return Promise.reject(new Error(`The direct connection is ${this.#state}`));
    return new Promise((resolve, reject) => {
      this.#waiters.add({ resolve, reject });
    });
  }

  retryNow(): void {
    if (this.#state !== "waiting") return;
    this.#timer?.cancel();
    this.#backoff.reset();
    this.#connect();
  }

  close(): void {
    if (isFinal(this.#state)) return;
    this.#end("closed", "closed by the program");
    this.#socket?.abandon(1000, "bye");
  }

  #connect(): void {
    this.#setState("connecting", "");
    const { url, id, token } = this.#options;
    const socket = openSocket(
      {
        WebSocket: this.#WebSocket,
        url,
        subprotocol: DIRECT_SUBPROTOCOL,
        maxBytes: MAX_DIRECT_FRAME_BYTES,
        badFrameCode: DIRECT_CLOSE.badFrame,
      },
      {
        open: () => socket.send(JSON.stringify({ type: "hello", v: DIRECT_PROTOCOL_VERSION, id, token })),
        text: (data) => this.#text(data),
        closed: (code, reason) => {
          if (mayReconnectDirectAfter(code)) this.#retry(reason || `closed with ${code}`);
          else this.#end(code === DIRECT_CLOSE.replaced ? "replaced" : "refused", reason || `closed with ${code}`);
        },
      },
    );
    this.#socket = socket;
    this.#timer = this.#clock.schedule(WELCOME_WITHIN_MS, () => {
      socket.abandon(1000, "no welcome");
      this.#retry("the mesh did not answer");
    });
  }

  #retry(why: string): void {
    this.#liveness?.stop();
    this.#timer?.cancel();
    const waitMs = this.#backoff.nextMs();
    this.#logger.info("The mesh cannot ring this device now; trying again.", { reason: why, wait_ms: waitMs });
    this.#setState("waiting", why);
    // The listener may have closed the connection.
    if (this.#state === "waiting") this.#timer = this.#clock.schedule(waitMs, () => this.#connect());
  }

  #text(data: string): void {
    this.#liveness?.heard();
    const value = parseJson(data);
    const parsed = directMeshFrameSchema.safeParse(value);
    if (!parsed.success) {
      if (isExtension(value)) return;
      this.#socket?.abandon(DIRECT_CLOSE.badFrame, "not a frame of the protocol");
      this.#end("refused", "the mesh sent a frame that is not of the protocol");
      return;
    }
    const frame = parsed.data;
    switch (frame.type) {
      case "welcome":
        this.#welcome(frame.idle_s * 1000, frame.dead_s * 1000);
        return;
      case "ring":
        this.#ring(frame.body);
        return;
      case "ping":
        this.#socket?.send(JSON.stringify({ type: "pong" }));
        return;
      case "pong":
        return;
      default:
        frame satisfies never;
    }
  }

  #welcome(idleMs: number, deadMs: number): void {
    this.#timer?.cancel();
    this.#backoff.reset();
    this.#liveness?.stop();
    this.#liveness = watchLiveness({
      clock: this.#clock,
      idleMs,
      deadMs,
      ping: () => void this.#socket?.send(JSON.stringify({ type: "ping" })),
      dead: () => {
        this.#socket?.abandon(1000, "no sign of life");
        this.#retry("nothing was heard from the mesh");
      },
    });
    this.#setState("ready", "");
  }

  #ring(body: string): void {
    const ask = askOf(body);
    if (ask !== undefined) this.#socket?.send(JSON.stringify({ type: "ring.received", ask }));
    try {
      this.#options.onRing(body);
    } catch (cause) {
      this.#logger.error("The onRing function threw.", { reason: errorText(cause) });
    }
  }

  #end(state: "closed" | "replaced" | "refused", detail: string): void {
    this.#liveness?.stop();
    this.#timer?.cancel();
    this.#setState(state, detail);
  }

  #setState(state: DirectState, detail: string): void {
    if (isFinal(this.#state) || this.#state === state) return;
    this.#state = state;
    if (state === "ready" || isFinal(state)) {
      for (const waiter of this.#waiters) {
        if (state === "ready") waiter.resolve();
        else waiter.reject(new Error(`The direct connection is ${state}: ${detail}`));
      }
      this.#waiters.clear();
    }
    try {
      this.#options.onState?.(state, detail);
    } catch (cause) {
      this.#logger.error("The onState function threw.", { reason: errorText(cause) });
    }
  }
}

function isFinal(state: DirectState): boolean {
  return state === "replaced" || state === "refused" || state === "closed";
}

/** The ask of a ring that is yet to be judged: only to say that it arrived. */
function askOf(body: string): unknown {
  const value = parseJson(body);
  return typeof value === "object" && value !== null && "ask" in value ? value.ask : undefined;
}
