import type { AskEffect, AskEvent, AskState, Step } from "./ask-state.ts";
import { GivenUp } from "./bounded.ts";

/** Who does what the machine says. */
export interface Steps {
  step(state: AskState, event: AskEvent): Step;
  perform(effect: AskEffect): void;
  onBug(error: unknown): void;
}

/**
 * Feeds events to the machine one at a time and has its effects done. Whatever goes wrong in a way it should not, in
 * our own code or in an adapter's, becomes the event `broken`: the ask still ends, and says no more than is certain.
 */
export class StepLoop {
  readonly #steps: Steps;
  readonly #inbox: AskEvent[] = [];
  #state: AskState;
  #isStepping = false;

  constructor(initial: AskState, steps: Steps) {
    this.#state = initial;
    this.#steps = steps;
  }

  get state(): AskState {
    return this.#state;
  }

  /** An event that comes while another is worked off waits until that is done. */
  tell(event: AskEvent): void {
    this.#inbox.push(event);
    if (this.#isStepping) return;
    this.#isStepping = true;
    try {
      for (let next = this.#inbox.shift(); next; next = this.#inbox.shift()) {
        const { state, effects } = this.#steps.step(this.#state, next);
        this.#state = state;
        for (const effect of effects) this.#attempt(effect);
      }
    } finally {
      this.#isStepping = false;
    }
  }

  /** Every promise of an ask ends here. What was given up because the ask is over concerns nobody any more. */
  expect<Value>(work: Promise<Value>, then: (value: Value) => void, orElse?: (error: unknown) => void): void {
    work
      .then(then, (error: unknown) => {
        if (error instanceof GivenUp && error.why === "aborted") return;
        if (!orElse) throw error;
        orElse(error);
      })
      .catch((error: unknown) => this.#fail(error));
  }

  #attempt(effect: AskEffect): void {
    try {
      this.#steps.perform(effect);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#steps.onBug(error);
    this.tell({ type: "broken" });
  }
}
