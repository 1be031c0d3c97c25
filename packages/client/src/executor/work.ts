/** What is under way and outlives whatever began it. */
export class Work {
  readonly #pending = new Set<Promise<void>>();

  /** `task` must not reject. */
  add(task: Promise<void>): void {
    this.#pending.add(task);
    void task.finally(() => this.#pending.delete(task));
  }

  /** Resolves when nothing is under way. */
  async done(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }
}
