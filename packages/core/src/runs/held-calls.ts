/** Waits for calls that their tools hold, and decides when the run need not wait with them. */
import type { Timer } from "@leafmesh/protocol";
import type { ToolResult, WaitingCall } from "../tools/contract.ts";
import type { RunContext } from "./run-context.ts";
import { interruptedCall, SETTLE_GRACE_MS } from "./tool-execution.ts";

/**
 * The waits of one group of calls. When all that is left of the group waits, and has for a while, the run is parked and
 * every wait ends without a result.
 */
export class HeldCalls {
  readonly #context: RunContext;
  readonly #parkFromMs: number;
  readonly #waits = new Set<() => void>();
  #timer: Timer | undefined;
  #atWork = 0;

  constructor(context: RunContext) {
    const { clock, parkAfterMs } = context.services;
    this.#context = context;
    this.#parkFromMs = clock.monotonicMs() + parkAfterMs;
  }

  /** Brings a call forward that does not wait, or not yet. One that fails keeps the run from being parked. */
  async work<Value>(begin: () => Promise<Value>): Promise<Value> {
    this.#atWork++;
    const value = await begin();
    this.#atWork--;
    this.#parkSoon();
    return value;
  }

  /** `undefined` when the run is parked, or a shutdown came first. */
  async wait(call: WaitingCall): Promise<ToolResult | undefined> {
    const { control } = this.#context;
    const ended = await this.#untilEnded(call);
    if (!ended) return control.interruption ? interruptedCall(control) : undefined;
    return this.work(() => call.result());
  }

  /** False: the run was parked, or the call did not settle although it was interrupted. */
  #untilEnded(call: WaitingCall): Promise<boolean> {
    if (call.isEnded) return Promise.resolve(true);
    const { control, services } = this.#context;
    const { signal } = control;
    return new Promise((resolve) => {
      let grace: Timer | undefined;
      const end = (ended: boolean): void => {
        grace?.cancel();
        signal.removeEventListener("abort", onInterruption);
        this.#waits.delete(park);
        if (this.#waits.size === 0) this.#timer?.cancel();
        resolve(ended);
      };
      const park = (): void => end(false);
      const onInterruption = (): void => {
        grace = services.clock.schedule(SETTLE_GRACE_MS, () => {
          services.logger.warn("a tool did not settle its call after an interruption", { runId: control.run.id });
          end(false);
        });
      };
      this.#waits.add(park);
      call.watch({ callEnded: () => end(true) });
      if (signal.aborted) onInterruption();
      else signal.addEventListener("abort", onInterruption);
      this.#parkSoon();
    });
  }

  #parkSoon(): void {
    const { clock } = this.#context.services;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#atWork > 0 || this.#waits.size === 0) return;
    const waitMs = Math.max(this.#parkFromMs - clock.monotonicMs(), 0);
    this.#timer = clock.schedule(waitMs, () => {
      if (this.#atWork === 0 && this.#waits.size > 0 && this.#context.control.park()) {
        for (const park of [...this.#waits]) park();
      }
    });
  }
}
