import type { AskRun } from "./ask-run.ts";

/** The asks that this process drives. */
export class OpenAsks {
  readonly #open = new Map<string, AskRun>();
  readonly #bySession = new Map<string, number>();
  /** Asks whose room is still being closed. */
  readonly #closing = new Set<Promise<void>>();

  get size(): number {
    return this.#open.size;
  }

  inSession(sessionId: string): number {
    return this.#bySession.get(sessionId) ?? 0;
  }

  get(askId: string): AskRun | undefined {
    return this.#open.get(askId);
  }

  all(): readonly AskRun[] {
    return [...this.#open.values()];
  }

  add(run: AskRun): void {
    const { sessionId } = run.plan.invocation;
    this.#open.set(run.plan.askId, run);
    this.#bySession.set(sessionId, this.inSession(sessionId) + 1);
  }

  /** The ask has its outcome; `whenOver` is called when its room is closed, too. */
  end(run: AskRun, whenOver: () => void): void {
    const { sessionId } = run.plan.invocation;
    if (!this.#open.delete(run.plan.askId)) return;
    const left = this.inSession(sessionId) - 1;
    if (left > 0) this.#bySession.set(sessionId, left);
    else this.#bySession.delete(sessionId);
    const over = run.over().then(() => {
      this.#closing.delete(over);
      whenOver();
    });
    this.#closing.add(over);
  }

  /** Resolves when every ask that has ended by now has its room closed. */
  async closed(): Promise<void> {
    await Promise.all(this.#closing);
  }
}
