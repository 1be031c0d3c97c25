/** An ask as the run engine holds it: with a run that waits for it, or without one. */
import type { CallWatcher, ToolResult, WaitingCall } from "@leafmesh/core";
import type { AskHolder, AskRun } from "./ask-run.ts";
import type { OpenAsks } from "./open-asks.ts";
import { type ResultFacts, toolResultOf } from "./tool-result.ts";

export class HeldAsk implements WaitingCall, AskHolder {
  readonly #ask: AskRun;
  readonly #asks: OpenAsks;
  readonly #facts: ResultFacts;
  readonly #release: () => void;
  #watcher: CallWatcher | undefined;

  /** Starts the ask, unless `signal` is aborted. Its connections stay open until its room is closed. */
  constructor(ask: AskRun, asks: OpenAsks, facts: ResultFacts, signal: AbortSignal) {
    this.#ask = ask;
    this.#facts = facts;
    this.#asks = asks;
    this.#release = ask.plan.connections.hold();
    asks.add(ask);
    ask.heldBy(this);
    if (signal.aborted) this.interrupt(signal.reason);
    ask.start();
  }

  askEnded(): void {
    this.#asks.end(this.#ask, this.#release);
    this.#watcher?.callEnded();
  }

  get isEnded(): boolean {
    return this.#ask.hasEnded;
  }

  watch(watcher: CallWatcher): void {
    this.#watcher = watcher;
  }

  interrupt(reason: unknown): void {
    if (isShutdown(reason)) this.#ask.stop();
    else this.#ask.cancel();
  }

  async result(): Promise<ToolResult> {
    return toolResultOf(await this.#ask.ended, this.#facts);
  }
}

/** Whether the run engine stops, and does not end the run: the reason that it gives its signal says so. */
function isShutdown(reason: unknown): boolean {
  return (
    typeof reason === "object" && reason !== null && "interruption" in reason && reason.interruption === "shutdown"
  );
}
