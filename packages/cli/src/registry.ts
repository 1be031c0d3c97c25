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

export function providerDefinitions(services: InProcessServices): ProviderDefinitions {
  return {
    notifiers: byProvider([directNotifier(() => services.ringer()), ...vendorNotifiers]),
    rooms: byProvider([leafmeshRooms(() => services.rooms()), ...vendorRooms]),
  };
}

/** The same for reading a mesh file: nothing is running. `more` comes beside them, or instead where the name is the same. */
export function providerRegistry(more: Partial<ProviderDefinitions> = {}): ProviderRegistry {
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

function byProvider<Definition extends { readonly provider: string }>(
  definitions: readonly Definition[],
): ReadonlyMap<string, Definition> {
  return new Map(definitions.map((definition) => [definition.provider, definition]));
}
