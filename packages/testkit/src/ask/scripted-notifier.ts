import type { Notifier, RingReceipt, RingRequest } from "@leafmesh/notifiers/contract";
import type { Secret } from "@leafmesh/protocol";

export interface SeenRing {
  readonly request: RingRequest;
  /** The push token in clear: a test may look at it, nothing else may. */
  readonly to: string;
}

/** A notifier for tests that play the push service themselves. */
export class ScriptedNotifier implements Notifier {
  readonly rings: SeenRing[] = [];
  timesClosed = 0;
  /** Decides on each ring; throws what the service would answer. Called with how many came before. */
  onRing: (ring: SeenRing, before: number, signal: AbortSignal) => Promise<RingReceipt> | RingReceipt = () => ({
    id: "receipt-1",
  });

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const seen = { request, to: to.reveal() };
    this.rings.push(seen);
    return this.onRing(seen, this.rings.length - 1, signal);
  }

  async check(): Promise<{ status: "active" }> {
    return { status: "active" };
  }

  async close(): Promise<void> {
    this.timesClosed++;
  }
}
