import type { Workbench } from "./workbench.ts";

/** One requirement of the protocol, by the id that reports use. */
export interface ConformanceTest {
  readonly id: string;
  /** What a service must do, as a statement. */
  readonly title: string;
  /** Returns when the service does it; throws `Failure` or `Skipped` otherwise. */
  run(bench: Workbench): Promise<void>;
}
