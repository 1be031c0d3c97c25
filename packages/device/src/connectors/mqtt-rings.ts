/** Being rung over a broker: the device's side of the `mqtt` notifier. */
import {
  type Incoming,
  type Link,
  MqttFailure,
  type MqttVersion,
  mayPass,
  openNewestLink,
  topicIssue,
} from "@leafmesh/mqtt/wire";
import {
  type Clock,
  createBackoff,
  type Logger,
  MAX_RING_BYTES,
  silentLogger,
  systemClock,
  type Timer,
} from "@leafmesh/protocol";
import { errorText } from "../error-text.ts";
import { parseJson } from "../frames.ts";
import { CLOCK_SKEW_MS } from "../ring-gate.ts";
import { type BrokerAccess, brokerAccess, clientMaker, type MqttBroker, type MqttModule } from "./mqtt-broker.ts";

/**
 * `ready`: the mesh can ring this device. `connecting`, `waiting`: it cannot now, and the kit is at it. `refused`: the
 * broker does not let this device in. `closed`: by `close`. The last two are final.
 */
export type RingListenerState = "connecting" | "ready" | "waiting" | "refused" | "closed";

export interface RingListenerOptions {
  readonly broker: MqttBroker;
  /** The device's own ring topic, such as `leafmesh/phone-7/connect`; the app gives it to the mesh as push token. */
  readonly topic: string;
  /** Called with the ring's text. Hand it to `device.handleRing`. */
  readonly onRing: (ring: string) => void;
  readonly onState?: ((state: RingListenerState, detail: string) => void) | undefined;
  /**
   * Has the broker keep rings for a device that is away for at most `seconds`. `clientId` must be this device's alone,
   * for good: 1 to 23 letters and digits. MQTT 5 only.
   */
  readonly session?: { readonly clientId: string; readonly seconds: number } | undefined;
  /** MQTT.js: `import mqtt from "mqtt"`. Imported on first use unless given. */
  readonly mqtt?: MqttModule | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
  /** Spreads reconnects; `Math.random` unless given. */
  readonly random?: (() => number) | undefined;
}

export interface RingListener {
  readonly state: RingListenerState;
  /** Resolves once the mesh can ring this device. Rejects when that will not happen any more. */
  ready(): Promise<void>;
  /** Takes no more rings, and drops a session that was kept. Idempotent, never rejects, ends within 3 s. */
  close(): Promise<void>;
}

/** Connects, and reconnects until it is closed. Throws a `TypeError` when an option is not usable. */
export function listenForRings(options: RingListenerOptions): RingListener {
  const issue = topicIssue(options.topic);
  if (issue) throw new TypeError(`listenForRings: topic ${issue}`);
  const { session } = options;
  if (session && !/^[0-9A-Za-z]{1,23}$/.test(session.clientId)) {
    throw new TypeError("listenForRings: session.clientId must be 1 to 23 letters and digits");
  }
  if (session && !(Number.isInteger(session.seconds) && session.seconds > 0)) {
    throw new TypeError("listenForRings: session.seconds must be a whole number above 0");
  }
  return new Listener(options, brokerAccess(options.broker));
}

class Listener implements RingListener {
  readonly #options: RingListenerOptions;
  readonly #access: BrokerAccess;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #backoff: ReturnType<typeof createBackoff>;
  readonly #waiters = new Set<{ resolve(): void; reject(error: Error): void }>();
  readonly #closing = new AbortController();
  readonly #clientId: string;
  #state: RingListenerState = "connecting";
  #version: MqttVersion = 5;
  #link: Link | undefined;
  #timer: Timer | undefined;

  constructor(options: RingListenerOptions, access: BrokerAccess) {
    this.#options = options;
    this.#access = access;
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
    this.#backoff = createBackoff({ firstMs: 500, longestMs: 30_000, random: options.random ?? Math.random });
    this.#clientId = options.session?.clientId ?? `lmr${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
    void this.#connect();
  }

  get state(): RingListenerState {
    return this.#state;
  }

  ready(): Promise<void> {
    if (this.#state === "ready") return Promise.resolve();
    if (isFinal(this.#state)) return Promise.reject(new Error(`The ring listener is ${this.#state}`));
    return new Promise((resolve, reject) => {
      this.#waiters.add({ resolve, reject });
    });
  }

  async close(): Promise<void> {
    const link = this.#link;
    this.#link = undefined;
    this.#timer?.cancel();
    this.#closing.abort();
    this.#setState("closed", "closed by the program");
    await link?.end();
  }

  /** Never rejects. */
  async #connect(): Promise<void> {
    const { session, topic, mqtt } = this.#options;
    let link: Link | undefined;
    try {
      const createClient = await clientMaker(mqtt, this.#access);
      link = await openNewestLink(
        {
          ...this.#access,
          clientId: this.#clientId,
          version: this.#version,
          clean: session === undefined,
          sessionSeconds: session?.seconds ?? 0,
        },
        { createClient, clock: this.#clock, onMessage: (message) => this.#hear(message) },
        this.#closing.signal,
      );
      this.#version = link.version;
      if (!link.resumed) await link.subscribe([topic], this.#closing.signal);
      this.#ready(link);
    } catch (error) {
      link?.drop();
      this.#failed(error);
    }
  }

  #ready(link: Link): void {
    if (isFinal(this.#state)) {
      void link.end();
      return;
    }
    this.#link = link;
    this.#backoff.reset();
    void link.over.then((failure) => {
      if (this.#link === link && failure) this.#failed(failure);
    });
    this.#setState("ready", "");
  }

  #failed(error: unknown): void {
    if (isFinal(this.#state)) return;
    this.#link = undefined;
    const detail = errorText(error);
    if (!(error instanceof MqttFailure) || !mayPass(error)) {
      this.#setState("refused", detail);
      return;
    }
    const waitMs = this.#backoff.nextMs();
    this.#logger.info("The mesh cannot ring this device now; trying again.", { reason: detail, wait_ms: waitMs });
    this.#setState("waiting", detail);
    if (isFinal(this.#state)) return;
    this.#timer = this.#clock.schedule(waitMs, () => {
      this.#setState("connecting", "");
      void this.#connect();
    });
  }

  /** A ring that the broker has kept as the topic's last word, or that is over, is not handed on. */
  #hear({ topic, payload, retained }: Incoming): void {
    if (topic !== this.#options.topic || isFinal(this.#state)) return;
    const fault = retained ? "retained" : payload.byteLength > MAX_RING_BYTES ? "too large" : undefined;
    const text = fault ? "" : new TextDecoder().decode(payload);
    const reason = fault ?? (this.#isOver(text) ? "over" : undefined);
    if (reason) {
      this.#logger.info("A ring was dropped.", { reason });
      return;
    }
    try {
      this.#options.onRing(text);
    } catch (cause) {
      this.#logger.error("The onRing function threw.", { reason: errorText(cause) });
    }
  }

  /** As far as this clock can tell; the device looks at the rest of the ring. */
  #isOver(text: string): boolean {
    const ring = parseJson(text);
    if (typeof ring !== "object" || ring === null || !("exp" in ring) || typeof ring.exp !== "number") return false;
    return this.#clock.nowMs() - CLOCK_SKEW_MS > ring.exp * 1000;
  }

  #setState(state: RingListenerState, detail: string): void {
    if (isFinal(this.#state) || this.#state === state) return;
    this.#state = state;
    if (state === "ready" || isFinal(state)) {
      for (const waiter of this.#waiters) {
        if (state === "ready") waiter.resolve();
        else waiter.reject(new Error(`The ring listener is ${state}: ${detail}`));
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

function isFinal(state: RingListenerState): boolean {
  return state === "refused" || state === "closed";
}
