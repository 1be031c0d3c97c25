/** The notifiers and rooms of one mesh: made on first use, shared by all its asks, closed when they are over. */
import type { Connection, Mesh } from "@leafmesh/core";
import type {
  CheckResult,
  Closable,
  ConnectionScope,
  Notifier,
  NotifierDefinition,
  ProviderDependencies,
  RingLinks,
} from "@leafmesh/notifiers/contract";
import type { Clock, Logger, Network, NewId, Secret } from "@leafmesh/protocol";
import type { RoomCallbacks, RoomDefinition, RoomProvider } from "@leafmesh/rooms/contract";

/** The room provider of an agent that names no `room`. */
export const BUILT_IN_ROOMS = "leafmesh";

export interface NotifierHandle {
  /** Name of its connection record. */
  readonly name: string;
  readonly provider: string;
  readonly notifier: Notifier;
  /** Whether `token` has the shape of this provider's push tokens; one that has not must not leave the mesh. */
  accepts(token: Secret): boolean;
}

export interface RoomHandle {
  /** Name of its connection record; `null` for the built-in rooms. */
  readonly name: string | null;
  readonly provider: string;
  readonly rooms: RoomProvider;
}

/** The verdict on one record in one of its faces. */
export interface ConnectionCheck {
  readonly connection: string;
  readonly face: "notifier" | "room";
  readonly result: CheckResult;
}

export interface ConnectionPool {
  /** `undefined`: there is no such record, or it is not a notifier. */
  notifier(name: string): NotifierHandle | undefined;
  /** `undefined` as a name means the built-in rooms. */
  room(name: string | undefined): RoomHandle | undefined;
  /** Tests every record of the mesh, in each face it has, at once. Rings nobody. */
  checkAll(signal: AbortSignal): Promise<readonly ConnectionCheck[]>;
  /** An ask begins to use the pool; call the returned function once, when it is over. */
  hold(): () => void;
  /**
   * The mesh was replaced: connections close as soon as no ask holds the pool. A run of the replaced mesh may still
   * ask; it gets fresh connections, which close again after it.
   */
  retire(): void;
  /** Closes everything now. Idempotent; the pool is of no use afterwards. */
  close(): Promise<void>;
}

export interface ConnectionPoolOptions {
  readonly mesh: Pick<Mesh, "connections">;
  /** By provider. */
  readonly notifiers: ReadonlyMap<string, NotifierDefinition>;
  readonly rooms: ReadonlyMap<string, RoomDefinition>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: NewId;
  /** `server.public_url`, without a trailing slash. */
  readonly publicUrl?: string | undefined;
  /** Where rings wait for people who follow a link; left out where nobody is rung. */
  readonly links?: RingLinks | undefined;
  /** Where devices ask this process to vouch for them; left out where nobody is rung. */
  readonly callbacks?: RoomCallbacks | undefined;
  /** Where a test plays the vendors. */
  readonly network?: Network | undefined;
}

/** Building it opens nothing. */
export function createConnectionPool(options: ConnectionPoolOptions): ConnectionPool {
  return new Pool(options);
}

class Pool implements ConnectionPool {
  readonly #options: ConnectionPoolOptions;
  readonly #notifiers = new Map<string, NotifierHandle>();
  readonly #rooms = new Map<string | null, RoomHandle>();
  /** One scope a record, so that its faces share what they hold. */
  readonly #scopes = new Map<string | null, Scope>();
  #holders = 0;
  #state: "in_use" | "retired" | "closed" = "in_use";

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
  }

  notifier(name: string): NotifierHandle | undefined {
    const made = this.#notifiers.get(name);
    if (made) return made;
    const connection = this.#record(name);
    const definition = connection && this.#options.notifiers.get(connection.provider);
    if (!definition) return undefined;
    const handle: NotifierHandle = {
      name,
      provider: definition.provider,
      notifier: definition.create(validated(connection), this.#dependencies(name)),
      accepts: (token) => definition.pushToken.safeParse(token.reveal()).success,
    };
    this.#notifiers.set(name, handle);
    return handle;
  }

  room(name: string | undefined): RoomHandle | undefined {
    const key = name ?? null;
    const made = this.#rooms.get(key);
    if (made) return made;
    const connection = name === undefined ? BUILT_IN : this.#record(name);
    const definition = connection && this.#options.rooms.get(connection.provider);
    if (!definition || this.#state === "closed") return undefined;
    const handle: RoomHandle = {
      name: key,
      provider: definition.provider,
      rooms: definition.create(validated(connection), this.#dependencies(key)),
    };
    this.#rooms.set(key, handle);
    return handle;
  }

  async checkAll(signal: AbortSignal): Promise<readonly ConnectionCheck[]> {
    const release = this.hold();
    try {
      const names = [...this.#options.mesh.connections.keys()];
      return await Promise.all(
        names.flatMap((connection) => {
          const notifier = this.notifier(connection)?.notifier;
          const rooms = this.room(connection)?.rooms;
          return [
            ...(notifier ? [this.#check(connection, "notifier", notifier, signal)] : []),
            ...(rooms ? [this.#check(connection, "room", rooms, signal)] : []),
          ];
        }),
      );
    } finally {
      release();
    }
  }

  hold(): () => void {
    this.#holders++;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#holders--;
      this.#closeIfIdle();
    };
  }

  retire(): void {
    if (this.#state === "in_use") this.#state = "retired";
    this.#closeIfIdle();
  }

  async close(): Promise<void> {
    this.#state = "closed";
    await this.#closeConnections();
  }

  #record(name: string): Connection | undefined {
    return this.#state === "closed" ? undefined : this.#options.mesh.connections.get(name);
  }

  #dependencies(record: string | null): ProviderDependencies & { readonly callbacks?: RoomCallbacks | undefined } {
    const { clock, logger, newId, publicUrl, links, callbacks, network } = this.#options;
    let scope = this.#scopes.get(record);
    if (!scope) {
      scope = new Scope();
      this.#scopes.set(record, scope);
    }
    return { clock, logger, newId, scope, publicUrl, links, callbacks, network };
  }

  async #check(
    connection: string,
    face: ConnectionCheck["face"],
    provider: { check(signal: AbortSignal): Promise<CheckResult> },
    signal: AbortSignal,
  ): Promise<ConnectionCheck> {
    try {
      return { connection, face, result: await provider.check(signal) };
    } catch (error) {
      this.#options.logger.error("a connection test failed in a way it should not", { connection, face, error });
      return { connection, face, result: { status: "readable", reason: "the test itself failed; see the log" } };
    }
  }

  #closeIfIdle(): void {
    if (this.#state === "retired" && this.#holders === 0) void this.#closeConnections();
  }

  /** Providers first: they may still need what they share. Never rejects. */
  async #closeConnections(): Promise<void> {
    const providers = [
      ...[...this.#notifiers.values()].map(({ notifier }) => notifier),
      ...[...this.#rooms.values()].map(({ rooms }) => rooms),
    ];
    const scopes = [...this.#scopes.values()];
    this.#notifiers.clear();
    this.#rooms.clear();
    this.#scopes.clear();
    await this.#closeEach(providers);
    await this.#closeEach(scopes);
  }

  async #closeEach(closables: readonly Closable[]): Promise<void> {
    const closed = await Promise.allSettled(closables.map(async (closable) => closable.close()));
    for (const { reason } of closed.filter((end) => end.status === "rejected")) {
      this.#options.logger.warn("a connection did not close", { error: reason });
    }
  }
}

const BUILT_IN: Connection = { name: BUILT_IN_ROOMS, provider: BUILT_IN_ROOMS, options: {} };

/** The options of a loaded mesh are the output of the provider's own schema. */
function validated(connection: Connection): Record<string, unknown> {
  return connection.options as Record<string, unknown>;
}

class Scope implements ConnectionScope, Closable {
  readonly #shared = new Map<string, Closable>();

  share<Value extends Closable>(key: string, make: () => Value): Value {
    const shared = this.#shared.get(key);
    // The key names the kind of thing; the faces of one record agree on it.
    if (shared) return shared as Value;
    const made = make();
    this.#shared.set(key, made);
    return made;
  }

  async close(): Promise<void> {
    const shared = [...this.#shared.values()];
    this.#shared.clear();
    const closed = await Promise.allSettled(shared.map(async (value) => value.close()));
    const failed = closed.filter((end) => end.status === "rejected").map(({ reason }) => reason);
    if (failed.length > 0) throw new AggregateError(failed, "shared connections did not close");
  }
}
