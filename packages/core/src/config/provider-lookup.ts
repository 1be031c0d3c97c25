/** Finds the provider that a connection record names. */
import type { ProviderDescription, ProviderRegistry } from "../providers/registry.ts";
import { type Located, locatedAt, textOf } from "./located.ts";

/** The notifier that needs no push service: the mesh's own, so that everything works on one machine. */
export const BUILT_IN_NOTIFIER = "direct";
/** The rooms that the mesh opens itself when an agent names none. */
export const BUILT_IN_ROOMS = "leafmesh";

export function providerNames(registry: ProviderRegistry): readonly string[] {
  return [...new Set([...registry.notifiers.keys(), ...registry.rooms.keys()])];
}

/** A provider that is both notifier and room has one set of fields, declared once by the package that serves both. */
export function findProvider(registry: ProviderRegistry, name: string): ProviderDescription | undefined {
  return registry.notifiers.get(name) ?? registry.rooms.get(name);
}

/** The packages that a provider imports when it is first used, in whichever role. */
export function packagesOf(registry: ProviderRegistry, name: string): readonly string[] {
  const inEachRole = [registry.notifiers.get(name), registry.rooms.get(name)];
  return [...new Set(inEachRole.flatMap((provider) => provider?.packages ?? []))];
}

/** The provider's fields of a connection record; `undefined` when the provider is not known. */
export function connectionSchemaOf(
  record: Located,
  registry: ProviderRegistry,
): ProviderDescription["options"] | undefined {
  const provider = providerOf(record);
  return provider === undefined ? undefined : findProvider(registry, provider)?.options;
}

export function providerOf(record: Located | undefined): string | undefined {
  return record && textOf(locatedAt(record, ["provider"]));
}
