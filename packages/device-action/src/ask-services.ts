import type { EventNotices } from "@leafmesh/core";
import type { PendingCalls } from "@leafmesh/core/calls";
import type { Clock, Logger, RingSigner } from "@leafmesh/protocol";
import type { AskEvent, AskState, Step } from "./ask-state.ts";
import type { DeviceQueue } from "./device-queue.ts";
import type { AskUploads } from "./uploads.ts";

/** What all asks of a process share. */
export interface AskServices {
  readonly calls: PendingCalls;
  readonly notices: EventNotices;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signer: RingSigner;
  /** `undefined`: this mesh takes no uploads. */
  readonly uploads: AskUploads | undefined;
  readonly queue: DeviceQueue;
  /** A number from 0 to 1. */
  random(): number;
  /** Decides what an ask does next. */
  step(state: AskState, event: AskEvent): Step;
}
