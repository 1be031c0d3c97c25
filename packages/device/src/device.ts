/** A device: what it can do, who may ring it, and what becomes of each ring. */
import {
  aborted,
  type Capability,
  type Clock,
  capabilitySchema,
  deadline,
  deviceIdSchema,
  type Logger,
  MAX_CAPABILITIES,
  type MeshKey,
  type Ring,
  silentLogger,
  systemClock,
  utf8Length,
} from "@leafmesh/protocol";
import { type Connector, type DeviceRoom, JoinError } from "./connector.ts";
import { leafmeshConnector } from "./connectors/leafmesh.ts";
import { errorText } from "./error-text.ts";
import type { DeviceEvent, IgnoreReason, RingDisposition } from "./events.ts";
import type { TaskHandler } from "./handlers.ts";
import { createMemoryLedger, type Ledger, type LedgerRecord } from "./ledger.ts";
import { admitRing, CLOCK_SKEW_MS, REMEMBER_MS } from "./ring-gate.ts";
import { type RungAt, serveRoom } from "./room-session.ts";

/** What the person is asked about. What the task will be is not known yet. */
export interface ApprovalQuestion {
  readonly ask: string;
  /** Name of the mesh, if it gave one. Signed like the rest of the ring. */
  readonly mesh?: string | undefined;
  readonly device: string;
  /** What {@link Device.handleRing} was told about where the ring came from. */
  readonly source?: string | undefined;
  /** Milliseconds that are left to answer. */
  readonly withinMs: number;
  /** Aborted when an answer would come too late: take the question away. */
  readonly signal: AbortSignal;
}

export interface DeviceOptions {
  /** The id under which the app gives this device to the mesh. */
  readonly id: string;
  /** What the device does, by the action's name. */
  readonly handlers: Readonly<Record<string, TaskHandler>>;
  /**
   * Asks the person whether the mesh may connect. Called for rings with `approval: "ask"` and for no other. Left out, such
   * a ring is refused.
   */
  readonly approve?: ((question: ApprovalQuestion) => boolean | Promise<boolean>) | undefined;
  /** What is remembered of asks; in memory unless given. */
  readonly ledger?: Ledger | undefined;
  /** Told to the mesh on joining. Left out, the mesh accepts any action name and this device refuses unknown ones. */
  readonly capabilities?: readonly Capability[] | undefined;
  /** Keys of the meshes that may ring. Without them only rings that lead to this very machine are taken. */
  readonly meshKeys?: readonly MeshKey[] | (() => Promise<readonly MeshKey[]>) | undefined;
  /** Checks signatures where WebCrypto has no Ed25519, as in React Native. */
  readonly verifyRing?: ((ring: Ring, keys: readonly MeshKey[]) => Promise<boolean>) | undefined;
  /** Further room technologies. LeafMesh rooms are built in; a connector for `leafmesh` given here takes their place. */
  readonly connectors?: readonly Connector[] | undefined;
  readonly clock?: Clock | undefined;
  readonly logger?: Logger | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** Told what happens, for a screen or a log. What it throws is logged and changes nothing. */
  readonly onEvent?: ((event: DeviceEvent) => void) | undefined;
  /** How many asks may be under way at once; 8 unless given. */
  readonly maxAsks?: number | undefined;
  /** How long a stopped handler may take to end, in milliseconds; 5 000 unless given. */
  readonly stopWithinMs?: number | undefined;
  /** How long the room may take to have an answer, in milliseconds, a lost link included; 60 000 unless given. */
  readonly deliverWithinMs?: number | undefined;
}

export interface Device {
  readonly id: string;
  /**
   * Does what a ring asks for, to the end. `ring` is its JSON text or the object that a push library made of it; `source`
   * is a word for the log, such as "push". Never rejects, and may be called with anything at any time.
   */
  handleRing(ring: unknown, source?: string): Promise<RingDisposition>;
  /** Takes no more rings, stops what is under way, tells the rooms goodbye, and resolves when all has ended. */
  close(): Promise<void>;
}

const MAX_CAPABILITIES_BYTES = 32 * 1024;
const REFUSE_WITHIN_MS = 10_000;
/** The mesh sends the task as soon as it sees the join, which may have been in the ring's last moment. */
const LEAST_TASK_WAIT_MS = 10_000;
const PRUNE_EVERY_MS = 3_600_000;

/** Throws a `TypeError` that names the option when one is not usable. Opens nothing. */
export function createDevice(options: DeviceOptions): Device {
  checkOptions(options);
  return new DeviceCore(options);
}

/** One ask under way. */
interface Serving {
  /** The newest ring for the ask: a second one voids the first one's token. */
  ring: Ring;
  rungAt: RungAt;
  readonly source: string | undefined;
}

class DeviceCore implements Device {
  readonly id: string;
  readonly #options: DeviceOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #ledger: Ledger;
  readonly #connectors: readonly Connector[];
  readonly #closing = new AbortController();
  /** Asks whose connection the person allowed, with the end of their rings on the monotonic clock. */
  readonly #allowed = new Map<string, number>();
  readonly #serving = new Map<string, Serving>();
  readonly #work = new Set<Promise<RingDisposition>>();
  #prunedAtMs: number | undefined;

  constructor(options: DeviceOptions) {
    this.#options = options;
    this.id = options.id;
    this.#clock = options.clock ?? systemClock;
    this.#logger = options.logger ?? silentLogger;
    this.#ledger = options.ledger ?? createMemoryLedger();
    const builtIn = leafmeshConnector({ clock: this.#clock, logger: this.#logger });
    this.#connectors = [...(options.connectors ?? []), builtIn];
  }

  async handleRing(input: unknown, source?: string): Promise<RingDisposition> {
    if (this.#closing.signal.aborted) return this.#ignore("device_closed", "the device was closed");
    const rungAt = { wallMs: this.#clock.nowMs(), monotonicMs: this.#clock.monotonicMs() };
    const { meshKeys } = this.#options;
    const verdict = await admitRing(input, {
      deviceId: this.id,
      clock: this.#clock,
      meshKeys: typeof meshKeys === "function" || meshKeys === undefined ? meshKeys : async () => meshKeys,
      verifyRing: this.#options.verifyRing,
    });
    if (!verdict.ok) return this.#ignore(verdict.fault, verdict.detail);
    const { ring } = verdict;
    const running = this.#serving.get(ring.ask);
    if (running) {
      if (ring.iat >= running.ring.iat) Object.assign(running, { ring, rungAt });
      return this.#ignore("repeated", "this ask is being served");
    }
    if (this.#closing.signal.aborted) return this.#ignore("device_closed", "the device was closed");
    if (this.#serving.size >= (this.#options.maxAsks ?? 8)) {
      return this.#ignore("too_many", `${this.#serving.size} asks are under way`);
    }
    const work = this.#admit({ ring, rungAt, source });
    this.#work.add(work);
    return work.finally(() => this.#work.delete(work));
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error("the device was closed"));
    await Promise.allSettled(this.#work);
  }

  async #admit(serving: Serving): Promise<RingDisposition> {
    const { ask, mesh, approval } = serving.ring;
    this.#serving.set(ask, serving);
    this.#emit({ type: "ring", ask, mesh, approval, source: serving.source });
    this.#prune();
    try {
      const disposition = await this.#serve(serving);
      this.#emit({ type: "settled", ask, disposition });
      return disposition;
    } finally {
      this.#serving.delete(ask);
    }
  }

  async #serve(serving: Serving): Promise<RingDisposition> {
    const { ask, approval, join } = serving.ring;
    let recorded: LedgerRecord | undefined;
    try {
      recorded = await this.#ledger.get(ask);
    } catch (cause) {
      return this.#ignore("ledger_unavailable", errorText(cause));
    }
    if (recorded?.state === "refused" || recorded?.delivered) {
      return this.#ignore("repeated", "nothing is owed for this ask any more");
    }
    const connector = this.#connectors.find(({ providers }) => providers.includes(join.provider));
    if (!connector) return this.#ignore("no_connector", `no connector was given for ${join.provider} rooms`);
    if (approval === "ask" && !recorded && !this.#isAllowed(ask)) {
      const stop = await this.#askPerson(serving, connector);
      if (stop) return stop;
    }
    for (;;) {
      const { ring } = serving;
      const room = await this.#join(serving, connector);
      if ("status" in room) return room;
      this.#emit({ type: "joined", ask, provider: join.provider });
      const disposition = await this.#stay(room, serving, recorded);
      // A newer ring for this ask gives its seat to whoever comes with the newer token.
      if (disposition.status !== "no_task" || serving.ring === ring || this.#closing.signal.aborted) return disposition;
    }
  }

  #stay(room: DeviceRoom, serving: Serving, recorded: LedgerRecord | undefined): Promise<RingDisposition> {
    return serveRoom(
      {
        room,
        ring: serving.ring,
        rungAt: serving.rungAt,
        recorded,
        taskWithinMs: Math.max(this.#leftMs(serving), LEAST_TASK_WAIT_MS),
        signal: this.#closing.signal,
      },
      {
        handlers: this.#options.handlers,
        ledger: this.#ledger,
        clock: this.#clock,
        logger: this.#logger,
        fetch: this.#options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
        emit: (event) => this.#emit(event),
        stopWithinMs: this.#options.stopWithinMs ?? 5000,
        deliverWithinMs: this.#options.deliverWithinMs ?? 60_000,
      },
    );
  }

  /** Whether the person allowed this ask before, when its room could not be reached or its ring was sent anew. */
  #isAllowed(ask: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    for (const [allowed, untilMs] of this.#allowed) if (untilMs <= nowMs) this.#allowed.delete(allowed);
    return this.#allowed.has(ask);
  }

  /** Resolves with how the ring ended, or with nothing when the connection is allowed. */
  async #askPerson(serving: Serving, connector: Connector): Promise<RingDisposition | undefined> {
    const { ask, mesh, device } = serving.ring;
    const { approve } = this.#options;
    if (!approve) return this.#refuse(serving, connector, "no_approve_function");
    const withinMs = this.#leftMs(serving);
    const limit = deadline(this.#clock, withinMs, this.#closing.signal);
    this.#emit({ type: "asking", ask });
    const question = { ask, mesh, device, source: serving.source, withinMs, signal: limit.signal };
    const decision = await Promise.race([
      decide(approve, question, this.#logger),
      aborted(limit.signal).then(() => undefined),
    ]);
    limit.dispose();
    if (decision === undefined) return { status: "no_decision" };
    if (!decision) return this.#refuse(serving, connector, "not_allowed");
    this.#allowed.set(ask, this.#clock.monotonicMs() + this.#leftMs(serving));
    this.#emit({ type: "allowed", ask });
    return undefined;
  }

  async #refuse(
    serving: Serving,
    connector: Connector,
    reason: "not_allowed" | "no_approve_function",
  ): Promise<RingDisposition> {
    const { ask } = serving.ring;
    const limit = deadline(this.#clock, REFUSE_WITHIN_MS, this.#closing.signal);
    let told = false;
    try {
      await this.#ledger.claim({ id: ask, state: "refused", at: this.#clock.nowMs() });
    } catch (cause) {
      this.#logger.warn("The refusal could not be stored.", { ask, reason: errorText(cause) });
    }
    try {
      await connector.refuse(serving.ring, limit.signal);
      told = true;
    } catch (cause) {
      this.#logger.warn("The mesh could not be told of the refusal.", { ask, reason: errorText(cause) });
    } finally {
      limit.dispose();
    }
    this.#emit({ type: "refused", ask, told });
    return { status: "refused", reason, told };
  }

  async #join(serving: Serving, connector: Connector): Promise<DeviceRoom | RingDisposition> {
    const { ring } = serving;
    const limit = deadline(this.#clock, this.#leftMs(serving), this.#closing.signal);
    try {
      return await connector.join(ring, { capabilities: this.#options.capabilities, signal: limit.signal });
    } catch (cause) {
      // A newer ring for the same ask came meanwhile, and its token is the one that counts.
      if (serving.ring !== ring && !this.#closing.signal.aborted) return await this.#join(serving, connector);
      const reason = cause instanceof JoinError ? cause.kind : "unsupported";
      return { status: "not_joined", reason, detail: errorText(cause) };
    } finally {
      limit.dispose();
    }
  }

  /** Milliseconds that the newest ring has to live, whatever this device's clock says. */
  #leftMs({ ring, rungAt }: Serving): number {
    const lifetimeMs = (ring.exp - ring.iat) * 1000;
    const passedMs = this.#clock.monotonicMs() - rungAt.monotonicMs;
    return Math.max(lifetimeMs - passedMs, 0);
  }

  #ignore(reason: IgnoreReason, detail: string): RingDisposition {
    this.#logger.info("A ring was ignored.", { reason, detail });
    this.#emit({ type: "ignored", reason, detail });
    return { status: "ignored", reason, detail };
  }

  #emit(event: DeviceEvent): void {
    try {
      this.#options.onEvent?.(event);
    } catch (cause) {
      this.#logger.error("The device's onEvent threw.", { event: event.type, reason: errorText(cause) });
    }
  }

  #prune(): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#prunedAtMs !== undefined && nowMs - this.#prunedAtMs < PRUNE_EVERY_MS) return;
    this.#prunedAtMs = nowMs;
    this.#ledger.prune(this.#clock.nowMs() - REMEMBER_MS - CLOCK_SKEW_MS).catch((cause: unknown) => {
      this.#logger.warn("Old records of the ledger could not be removed.", { reason: errorText(cause) });
    });
  }
}

/** An `approve` that fails has not allowed anything. */
async function decide(
  approve: NonNullable<DeviceOptions["approve"]>,
  question: ApprovalQuestion,
  logger: Logger,
): Promise<boolean> {
  try {
    return (await approve(question)) === true;
  } catch (cause) {
    logger.error("The device's approve function threw; the connection is not allowed.", { reason: errorText(cause) });
    return false;
  }
}

function checkOptions({ id, handlers, capabilities = [] }: DeviceOptions): void {
  const parsedId = deviceIdSchema.safeParse(id);
  if (!parsedId.success) throw new TypeError(`createDevice: id ${parsedId.error.issues[0]?.message}`);
  const parsed = capabilitySchema.array().max(MAX_CAPABILITIES).safeParse(capabilities);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new TypeError(`createDevice: capabilities.${issue?.path.map(String).join(".")}: ${issue?.message}`);
  }
  const bytes = utf8Length(JSON.stringify(capabilities));
  if (bytes > MAX_CAPABILITIES_BYTES) {
    throw new TypeError(`createDevice: capabilities have ${bytes} bytes, the limit is ${MAX_CAPABILITIES_BYTES}`);
  }
  for (const { name } of capabilities) {
    if (!Object.hasOwn(handlers, name)) throw new TypeError(`createDevice: capability "${name}" has no handler`);
  }
}
