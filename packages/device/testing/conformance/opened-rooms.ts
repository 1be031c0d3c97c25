import type { JoinInfo } from "@leafmesh/protocol";
import type { RoomDefinition } from "@leafmesh/rooms/contract";

/** The same provider, and how each of the rooms that it opened is joined. */
export function watched(room: RoomDefinition): {
  readonly definition: RoomDefinition;
  readonly opened: readonly JoinInfo[];
} {
  const opened: JoinInfo[] = [];
  const create: RoomDefinition["create"] = (options, dependencies) => {
    const provider = room.create(options, dependencies);
    return {
      ...provider,
      async open(request, signal) {
        const one = await provider.open(request, signal);
        opened.push(one.join);
        return one;
      },
    };
  };
  return { definition: { ...room, create }, opened };
}
