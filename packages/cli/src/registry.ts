/** Every provider that a connection may name. The built-in ones are handed the services of this process. */
import type { ProviderRegistry } from "@leafmesh/core";
import { type DirectRinger, directNotifier, vendorNotifiers } from "@leafmesh/notifiers";
import type { NotifierDefinition } from "@leafmesh/notifiers/contract";
import type { RoomService } from "@leafmesh/room-service";
import { leafmeshRooms, vendorRooms } from "@leafmesh/rooms";
import type { RoomDefinition } from "@leafmesh/rooms/contract";

/** What runs inside the mesh's own process. Asked for on first use, never while a mesh file is only read. */
export interface InProcessServices {
  ringer(): DirectRinger;
  rooms(): RoomService;
}

export interface ProviderDefinitions {
  readonly notifiers: ReadonlyMap<string, NotifierDefinition>;
  readonly rooms: ReadonlyMap<string, RoomDefinition>;
}

/** Vendors' definitions that were loaded. Like modules, they are loaded once and stay. */
const loaded = { notifiers: new Map<string, NotifierDefinition>(), rooms: new Map<string, RoomDefinition>() };

/** The names of vendors whose definitions have to be loaded before a mesh can use them. */
export const vendorNames: ReadonlySet<string> = new Set([...Object.keys(vendorNotifiers), ...Object.keys(vendorRooms)]);

/** Loads the definitions of these vendors; of all unless told. */
export async function loadVendors(names: ReadonlySet<string> = vendorNames): Promise<void> {
  await Promise.all([loadInto(loaded.notifiers, vendorNotifiers, names), loadInto(loaded.rooms, vendorRooms, names)]);
}

async function loadInto<Value>(
  known: Map<string, Value>,
  vendors: Readonly<Record<string, () => Promise<Value>>>,
  names: ReadonlySet<string>,
): Promise<void> {
  const wanted = Object.entries(vendors).filter(([name]) => names.has(name) && !known.has(name));
  for (const [name, definition] of await Promise.all(wanted.map(async ([name, load]) => [name, await load()] as const)))
    known.set(name, definition);
}

/** The built-in providers, and of the vendors those that were loaded. */
export function providerDefinitions(services: InProcessServices): ProviderDefinitions {
  const direct = directNotifier(() => services.ringer());
  const leafmesh = leafmeshRooms(() => services.rooms());
  return {
    notifiers: new Map([[direct.provider, direct], ...inOrder(loaded.notifiers, vendorNotifiers)]),
    rooms: new Map([[leafmesh.provider, leafmesh], ...inOrder(loaded.rooms, vendorRooms)]),
  };
}

function inOrder<Value>(known: ReadonlyMap<string, Value>, vendors: Readonly<Record<string, unknown>>) {
  return Object.keys(vendors).flatMap((name): (readonly [string, Value])[] => {
    const definition = known.get(name);
    return definition === undefined ? [] : [[name, definition]];
  });
}

/** Every provider, for reading a mesh file: nothing is running. `more` comes beside them, or instead where the name is the same. */
export async function providerRegistry(more: Partial<ProviderDefinitions> = {}): Promise<ProviderRegistry> {
  await loadVendors();
  return loadedRegistry(more);
}

/** The same of those that were loaded. */
export function loadedRegistry(more: Partial<ProviderDefinitions> = {}): ProviderRegistry {
  const notRunning = (): never => {
    throw new Error("no mesh is running in this process");
  };
  return withMore(providerDefinitions({ ringer: notRunning, rooms: notRunning }), more);
}

export function withMore(known: ProviderDefinitions, more: Partial<ProviderDefinitions> = {}): ProviderDefinitions {
  return {
    notifiers: new Map([...known.notifiers, ...(more.notifiers ?? [])]),
    rooms: new Map([...known.rooms, ...(more.rooms ?? [])]),
  };
}
