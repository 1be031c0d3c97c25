/** Notices of events to the address that the operator gave for them. */
import type { Clock, NewId } from "@leafmesh/protocol";
import type { CallbackSettings } from "../config/mesh.ts";
import type { NoticedEvent, Write } from "../storage/contract.ts";

export interface EventNotices {
  /** What is stored in the commit of an event so that the app is told of it; nothing when no address was given. */
  writesFor(event: NoticedEvent, runId: string): readonly Write[];
}

/** @param settings of the mesh in force */
export function createEventNotices(options: {
  readonly clock: Clock;
  readonly newId: NewId;
  readonly settings: () => CallbackSettings | undefined;
  /** Told that there will be something to send when this run is let go. */
  readonly onWritten: (runId: string) => void;
}): EventNotices {
  const { clock, newId, settings, onWritten } = options;
  return {
    writesFor(event, runId) {
      if (settings()?.url === undefined) return [];
      onWritten(runId);
      const at = clock.nowMs();
      const callback = { id: newId("cbk"), runId, event, state: "waiting", attempts: 0, version: 1 } as const;
      return [{ kind: "callback.create", callback: { ...callback, dueAt: at, createdAt: at } }];
    },
  };
}
