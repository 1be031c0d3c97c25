/**
 * What a push provider is to LeafMesh: data plus a factory. Building is pure, the first ring connects, `close` closes.
 * This file imports the protocol and nothing else; adapters live in `providers/`, one file each.
 * How a new one is made: docs/adding-a-notifier.md.
 */
import type { Approval, Clock, Logger, Network, NewId, Ring, Secret } from "@leafmesh/protocol";
import type * as z from "zod";

/** What differs between providers, as data: the caller never asks which provider it is. */
export interface NotifierTraits {
  /** Largest payload the provider takes, in bytes, the ring included. */
  readonly maxBytes: number;
  /** Whether an undelivered ring dies by itself when its time is over. */
  readonly ttl: boolean;
  /** Whether a later ring of the same ask replaces an earlier one on the device. */
  readonly collapse: boolean;
  /** Whether a ring can arrive without showing anything. `never` makes `approval: silent` a load error. */
  readonly silent: "yes" | "best-effort" | "never";
  /** Whether the device gets a link (a text message) instead of the ring itself. */
  readonly link: boolean;
  /** Whether the provider says, when it is rung, that a token is dead. Where not, the ask ends as `not_joined`. */
  readonly deadTokens: boolean;
}

/** What the page of the provider in docs/notifiers/ says. Sentences for an operator, in Markdown. */
export interface NotifierDocs {
  /** Steps on the vendor's side, in order, each naming where the value of an option is found. */
  readonly setUp: readonly string[];
  /** What the app sends as `push_token`, and where it gets it from. */
  readonly pushToken: string;
  /** What the app has to do with a ring that comes. */
  readonly onTheDevice: string;
  /** What the connection test does, and what its verdict proves. */
  readonly check: string;
  /** What an operator has to know: what `ask` and `silent` look like on a device, limits, traps. */
  readonly goodToKnow: readonly string[];
  /** The vendor's own pages that the adapter follows. */
  readonly links: readonly string[];
}

/** Something that lives as long as its connection record and is shared by the record's faces. */
export interface Closable {
  close(): Promise<void>;
}

/** One per connection record, so that a record used as notifier and as room holds one socket. */
export interface ConnectionScope {
  /** The value under `key`, made on first use and closed with the record. */
  share<Value extends Closable>(key: string, make: () => Value): Value;
}

/** Where a ring waits for the person who follows a link to it: for notifiers with the trait `link`. */
export interface RingLinks {
  /**
   * Keeps the ring until its end, for whoever brings the code first. A later ring of the same ask takes its place.
   * What comes back is the code: letters and digits alone, at least 128 bits of chance.
   */
  keep(request: Pick<RingRequest, "ring" | "body" | "ttlMs">): string;
}

/** What a factory is handed instead of reaching for it. */
export interface ProviderDependencies {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: NewId;
  readonly scope: ConnectionScope;
  /** `server.public_url` of the mesh, without a trailing slash. */
  readonly publicUrl?: string | undefined;
  /** `undefined` where nobody can be rung, as in a connection test. */
  readonly links?: RingLinks | undefined;
  /** Where a test plays the vendor; `undefined` outside of tests. Hand it on to the HTTP client. */
  readonly network?: Network | undefined;
}

/** One ring to one device. */
export interface RingRequest {
  /** The signed ring. */
  readonly ring: Ring;
  /** The same ring as compact JSON: what goes on the wire. */
  readonly body: string;
  /** At most 32 URL-safe characters, the same for every ring of one ask. */
  readonly collapseKey: string;
  /** Time left until the device could no longer join. */
  readonly ttlMs: number;
  readonly approval: Approval;
}

/** The provider took the ring. Nothing here says that a device saw it. */
export interface RingReceipt {
  /** The provider's id for the message, for its support desk. Never a token. */
  readonly id?: string | undefined;
}

export { RingError, type RingErrorDetails, type RingErrorKind } from "./ring-error.ts";

/**
 * The verdict of a test that rings nobody. `active`: the service accepted the credential and every right the adapter
 * will use. `failing`: it refused, and `reason` names the cure. `readable`: no verdict could be had.
 */
export type CheckResult =
  | { readonly status: "active" }
  | { readonly status: "failing"; readonly reason: string }
  | { readonly status: "readable"; readonly reason: string };

export interface Notifier extends Closable {
  /** Resolves when the provider has taken the ring. Throws {@link RingError}; anything else is a bug. Honours `signal`. */
  ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt>;
  /** Asks the service whether the credential works. Never throws for what the service says. */
  check(signal: AbortSignal): Promise<CheckResult>;
}

/** The option schema of a record, its fields only; `provider` is added by the loader. */
export type OptionsSchema = z.ZodObject<z.ZodRawShape, z.core.$strict>;

export interface NotifierDefinition<Options extends OptionsSchema = OptionsSchema> {
  readonly provider: string;
  readonly title: string;
  /** One or two sentences for the operator. */
  readonly description: string;
  /** Single source for the parser, the error text, the JSON Schema, the docs table, the form and the redaction list. */
  readonly options: Options;
  /** Names of the npm packages that the factory imports on first use, resolved at load. */
  readonly packages?: readonly string[] | undefined;
  /** Shape of this provider's push token; a token of another shape never leaves the mesh. */
  readonly pushToken: z.ZodType<string>;
  readonly traits: NotifierTraits;
  readonly docs: NotifierDocs;
  /** What only a look at several fields can find. Paths are relative to the record. */
  validate?(options: z.output<Options>, facts?: MeshFacts): readonly OptionIssue[];
  create(options: z.output<Options>, dependencies: ProviderDependencies): Notifier;
}

/** What of the rest of mesh.yaml a record may depend on. */
export interface MeshFacts {
  /** `server.public_url`, without a trailing slash. */
  readonly publicUrl?: string | undefined;
  /** Of the rooms where agents meet the devices that the record rings. */
  readonly roomProviders?: readonly string[] | undefined;
}

export { type RingRetries, ringWithRetry } from "./ring-with-retry.ts";

export interface OptionIssue {
  readonly path: readonly string[];
  readonly message: string;
}

/**
 * Declares a provider. Only gives the types a place to meet: the definition is returned as it is, with its option type
 * widened so that definitions of different providers fit one registry.
 */
export function defineNotifier<Options extends OptionsSchema>(
  definition: NotifierDefinition<Options>,
): NotifierDefinition {
  return definition as unknown as NotifierDefinition;
}
