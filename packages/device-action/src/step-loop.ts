import type { AskEffect, AskEvent, AskState, Step } from "./ask-state.ts";
import { GivenUp } from "./bounded.ts";

/**
 * Feeds events to the machine one at a time and has its effects done. Whatever goes wrong in a way it should not, in
 * our own code or in an adapter's, becomes the event `broken`: the ask still ends, and says no more than is certain.
 */
export class StepLoop {
  readonly #step: (state: AskState, event: AskEvent) => Step;
  readonly #perform: (effect: AskEffect) => void;
  readonly #onBug: (error: unknown) => void;
  readonly #inbox: AskEvent[] = [];
  #state: AskState;
  #isStepping = false;

  constructor(
    initial: AskState,
    {
      step,
      perform,
      onBug,
    }: {
      step(state: AskState, event: AskEvent): Step;
      perform(effect: AskEffect): void;
      onBug(error: unknown): void;
    },
  ) {
    this.#state = initial;
    this.#step = step;
    this.#perform = perform;
    this.#onBug = onBug;
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
        const { state, effects } = this.#step(this.#state, next);
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
      this.#perform(effect);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    this.#onBug(error);
    this.tell({ type: "broken" });
  }
}
