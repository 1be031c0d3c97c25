/** The names that the parts of a mesh file call each other by, gathered once for the checks that follow them. */
import type { ProviderRegistry } from "../providers/registry.ts";
import { type PathSegment, quoted } from "./diagnostic.ts";
import { entriesOf, type Located, locatedAt } from "./located.ts";
import type { Problems } from "./problems.ts";
import { providerOf } from "./provider-lookup.ts";
import { listNames, suggestion } from "./suggest.ts";

/** Connections that are not in the file: records of the store, by name. */
export type KnownConnections = ReadonlyMap<string, { readonly provider: string }>;

export type Role = "notifier" | "room";

export interface MeshNames {
  readonly agents: ReadonlySet<string>;
  /** Entries of `models`, and the built-in `openai`. */
  readonly endpoints: ReadonlySet<string>;
  /** Connections of the store and of the file, which wins, with their providers where these can be told. */
  readonly connections: ReadonlyMap<string, string | undefined>;
  /** Tools of the file and of the store. */
  readonly tools: ReadonlySet<string>;
  /** The connections that can serve in a role. */
  readonly fitting: Readonly<Record<Role, readonly string[]>>;
}

/** What a check of one part of the file needs. */
export interface CheckContext {
  readonly root: Located;
  readonly registry: ProviderRegistry;
  readonly problems: Problems;
  /** Whether a package can be imported. Left out, packages are taken to be there. */
  readonly canResolve?: ((packageName: string) => boolean) | undefined;
}

/** What a check across the file needs. */
export interface CrossContext extends CheckContext {
  readonly names: MeshNames;
  /** Whether a store was asked: without one, a connection that is not in the file may still exist. */
  readonly storeIsKnown: boolean;
  /** As `storeIsKnown`, of tools. */
  readonly toolsAreKnown: boolean;
  readonly publicUrl: string | undefined;
  /** Whether the environment has what notices are signed with. */
  readonly hasWebhookSecret: boolean;
}

export function gatherNames(
  root: Located,
  registry: ProviderRegistry,
  knownConnections: KnownConnections | undefined,
  knownTools: ReadonlySet<string> = new Set(),
): MeshNames {
  const connections = new Map<string, string | undefined>();
  for (const [name, { provider }] of knownConnections ?? []) connections.set(name, provider);
  for (const { key, value } of entriesOf(locatedAt(root, ["connections"]))) connections.set(key, providerOf(value));
  const fitting = (role: Role): readonly string[] =>
    [...connections]
      .filter(([, provider]) => provider !== undefined && serves(provider, role, registry))
      .map(([name]) => name);
  return {
    agents: new Set(entriesOf(locatedAt(root, ["agents"])).map((entry) => entry.key)),
    endpoints: new Set(["openai", ...entriesOf(locatedAt(root, ["models"])).map((entry) => entry.key)]),
    connections,
    tools: new Set([...entriesOf(locatedAt(root, ["tools"])).map((entry) => entry.key), ...knownTools]),
    fitting: { notifier: fitting("notifier"), room: fitting("room") },
  };
}

export function serves(provider: string, role: Role, registry: ProviderRegistry): boolean {
  return role === "notifier" ? registry.notifiers.has(provider) : registry.rooms.has(provider);
}

/** Whether a value stands in the file as it is, so that it may be repeated in a message. */
export function isWritten(value: Located | undefined): boolean {
  return value?.kind === "scalar" && value.origin === "file";
}

/** A name for a message: as written in the file, or a stand-in where it came from a reference. */
export function shownName(root: Located, path: readonly PathSegment[], name: string): string {
  return isWritten(locatedAt(root, path)) ? quoted(name) : "of the name that this reference gives";
}

/** "Did you mean" for a name that stands in the file; only the list for one that came from a reference. */
export function hintForName(
  root: Located,
  path: readonly PathSegment[],
  name: string,
  names: readonly string[],
  label: string,
): string {
  return isWritten(locatedAt(root, path)) ? suggestion(name, names, label) : `${label}: ${listNames(names)}`;
}
