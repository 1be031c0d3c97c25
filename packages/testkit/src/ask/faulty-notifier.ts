import { type Notifier, RingError, type RingReceipt, type RingRequest } from "@leafmesh/notifiers/contract";
import type { Clock, Ring, Secret } from "@leafmesh/protocol";
import type { FaultPlan } from "./fault-plan.ts";
import { sleep } from "./sleep.ts";

export interface FaultyNotifierOptions {
  readonly clock: Clock;
  planOf(askId: string): FaultPlan;
  /** Brings a ring to its device. */
  deliver(ring: Ring): void;
}

/** A push service that goes wrong as planned: refuses, hangs, lies, loses, delays and repeats rings. */
export class FaultyNotifier implements Notifier {
  readonly #options: FaultyNotifierOptions;
  readonly #attempts = new Map<string, number>();
  /** Push tokens that rings went to. */
  readonly rungTokens = new Set<string>();

  constructor(options: FaultyNotifierOptions) {
    this.#options = options;
  }

  async ring({ ring }: RingRequest, to: Secret): Promise<RingReceipt> {
    const { clock, planOf, deliver } = this.#options;
    const plan = planOf(ring.ask);
    const fault = plan.ring;
    const attempt = (this.#attempts.get(ring.ask) ?? 0) + 1;
    this.#attempts.set(ring.ask, attempt);
    this.rungTokens.add(to.reveal());
    const deliverAfter = (ms: number): void => void clock.schedule(ms, () => deliver(ring));
    await sleep(clock, plan.latencyMs);
    switch (fault?.type) {
      case "error":
        if (!fault.once || attempt === 1)
          throw new RingError(fault.kind, `planned: ${fault.kind}`, { code: "PLANNED" });
        break;
      case "error_after_delivery":
        deliverAfter(0);
        throw new RingError(fault.kind, `planned: ${fault.kind} after delivery`);
      case "hang":
        return new Promise<never>(() => {});
      case "bug":
        throw new TypeError("planned: the notifier is broken");
      case "lost":
        return { id: `receipt-${attempt}` };
      case "late":
        deliverAfter(90_000);
        return { id: `receipt-${attempt}` };
      case "twice":
        deliverAfter(1_000);
        break;
      default:
    }
    deliverAfter(plan.latencyMs);
    return { id: `receipt-${attempt}` };
  }

  async check(): Promise<{ status: "active" }> {
    return { status: "active" };
  }

  async close(): Promise<void> {}
}
