/** Serves a run: answers what it is suspended for. */
import { type RunFrameView, type Suspension, suspensionSchema } from "@leafmesh/protocol";
import { LeafMeshError } from "../errors.ts";
import type { Run } from "../run.ts";
import { toToolResult } from "./answer.ts";
import { type PerformServices, perform } from "./perform.ts";
import { STALE_AFTER_MS } from "./serve-session.ts";
import { CallStopped, type ToolCall } from "./tool.ts";
import type { Work } from "./work.ts";

const POST_TIMEOUT_MS = 30_000;

export interface RunService {
  readonly services: PerformServices;
  readonly run: Run;
  readonly work: Work;
  /** Aborted when the executor is closed. */
  readonly closed: AbortSignal;
}

/**
 * A provider may give the same id to calls of different turns, so a call is known by the number of the frame that brought
 * it. A frame of the backlog may be answered long since: the run's state says whether it still waits for this one.
 */
export class RunServer {
  readonly #service: RunService;
  #current: { readonly seq: number; readonly stop: AbortController } | undefined;

  constructor(service: RunService) {
    this.#service = service;
  }

  take(frame: RunFrameView): void {
    if (frame.type === "resume" || frame.type === "run.end") {
      this.#current?.stop.abort(new CallStopped("settled"));
      this.#current = undefined;
    }
    if (frame.type !== "suspend") return;
    const suspension = suspensionSchema.safeParse(frame.data).data;
    if (!suspension) return;
    if (suspension.resume_contract !== "result") {
      this.#service.services.report({ type: "approval_wanted", runId: this.#service.run.id, suspension });
      return;
    }
    const stop = new AbortController();
    this.#current = { seq: frame.seq, stop };
    this.#service.work.add(this.#answer(frame.seq, suspension, stop.signal));
  }

  async #answer(seq: number, suspension: Suspension, stopped: AbortSignal): Promise<void> {
    const { services, run, closed } = this.#service;
    const [first, ...others] = suspension.prompt.tool_calls.map(
      ({ id, name, arguments: args }): ToolCall => ({
        key: `${run.id}/${seq}/${id}`,
        tool: name,
        args,
        origin: { face: "run", runId: run.id, toolCallId: id },
      }),
    );
    if (!first) return;
    const calls = [first, ...others] as const;
    const waits = await this.#waitsFor(suspension, calls);
    if (!waits || stopped.aborted) return;
    await perform(services, {
      key: `${run.id}/${seq}`,
      calls,
      budgetMs: this.#budgetMs(suspension),
      signal: AbortSignal.any([stopped, closed]),
      async deliver(answers) {
        const ids = suspension.prompt.tool_calls.map(({ id }) => id);
        const results = answers.map((answer, index) => toToolResult(answer, ids[index] ?? ""));
        await run.resume(results, { timeoutMs: POST_TIMEOUT_MS });
      },
    });
  }

  /** Asked of the mesh, not of the frame. What cannot be found out is reported, and nothing is run on its strength. */
  async #waitsFor({ deadline_at }: Suspension, calls: readonly ToolCall[]): Promise<boolean> {
    const { services, run } = this.#service;
    try {
      const { suspension } = await run.state();
      const waits = suspension !== null && Date.parse(suspension.deadline_at) === Date.parse(deadline_at);
      if (!waits) for (const call of calls) services.report({ type: "repeated", call });
      return waits;
    } catch (error) {
      for (const call of calls) {
        services.report(
          error instanceof LeafMeshError ? { type: "refused", call, error } : { type: "undelivered", call, error },
        );
      }
      return false;
    }
  }

  /** The announced wait counts from when the run was suspended; what is left of it is known only as well as the clocks agree. */
  #budgetMs({ deadline_at, prompt }: Suspension): number {
    const leftMs = Date.parse(deadline_at) - this.#service.services.clock.nowMs() + STALE_AFTER_MS;
    return Math.max(Math.min(prompt.timeout_s * 1000, leftMs), 0);
  }
}
