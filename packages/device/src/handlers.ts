/** Running one handler: its budget, its end, and what it says. */
import { aborted, type Clock, type TaskEnvelope, type Timer } from "@leafmesh/protocol";
import { type Answer, failure, specialAnswer } from "./answers.ts";
import { errorText } from "./error-text.ts";
import { createProgressReporter, type Progress } from "./progress.ts";
import { UploadError, type UploadReference, uploadFile } from "./uploads.ts";

/** A task, as its handler sees it. */
export interface Task {
  readonly action: string;
  /** As the agent gave them: check them. What `capabilities` declares is not enforced here. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** The ask's id. */
  readonly ask: string;
  /** Name of the mesh that asks, if it gave one. */
  readonly mesh?: string | undefined;
  /**
   * Aborted when the answer is not wanted any more; `reason` is a {@link TaskStopped}. Stop what can be stopped, and
   * return or throw soon: a handler that does not is given up on, and its answer is lost.
   */
  readonly signal: AbortSignal;
  /** Tells the agent how far it got. Best effort; does not extend the time. `pct` is 0 to 100. */
  progress(note?: string, pct?: number): void;
  /**
   * Brings one file to the mesh; put the result into what the handler returns. `mediaType` is JPEG, PNG, WebP or GIF, JSON
   * or plain text. Rejects with an `UploadError`.
   */
  upload(name: string, bytes: Uint8Array<ArrayBuffer>, mediaType: string): Promise<UploadReference>;
}

/**
 * Does one action. What it returns is the `data` of a `done` answer (anything that JSON can say), or the result of
 * `decline`, `sendForApproval` or `fail`. An error that it throws becomes `failed` with code `handler_error` and
 * `may_have_happened`, since nobody can say how far it got.
 */
export type TaskHandler = (task: Task) => unknown;

/** Why the answer is not wanted any more. */
export type StopCause = "cancelled" | "timed_out" | "room_ended" | "device_closed";

/** `reason` of the signal that a handler gets. */
export class TaskStopped extends Error {
  override readonly name = "TaskStopped";
  readonly stopCause: StopCause;

  constructor(stopCause: StopCause, message: string) {
    super(message);
    this.stopCause = stopCause;
  }
}

export interface HandlerRun {
  readonly handler: TaskHandler;
  readonly task: TaskEnvelope;
  readonly mesh: string | undefined;
  /** Aborted with a {@link TaskStopped}. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly fetch: typeof globalThis.fetch;
  /** How long a stopped handler may take to end. */
  readonly stopWithinMs: number;
  readonly sendProgress: (progress: Progress) => void;
}

/** Never rejects and always ends, whatever the handler does. */
export async function runHandler(run: HandlerRun): Promise<Answer> {
  const { handler, task, mesh, signal, clock, fetch } = run;
  const reporter = createProgressReporter(clock, run.sendProgress);
  const view: Task = {
    action: task.action,
    inputs: task.inputs,
    ask: task.id,
    mesh,
    signal,
    progress: reporter.report,
    upload: (name, bytes, mediaType) => uploadFile(task.upload, { name, bytes, mediaType }, { fetch, signal }),
  };
  const ended = invoke(handler, view).then(
    (value) => specialAnswer(value) ?? done(value),
    (thrown: unknown) => specialAnswer(thrown) ?? thrownAnswer(thrown, signal),
  );
  const patience = createPatience(clock, run.stopWithinMs, signal);
  const answer = await Promise.race([ended, patience.over.then(() => stoppedAnswer(signal, true))]);
  patience.stop();
  reporter.stop();
  return answer;
}

/** `over` resolves `stopWithinMs` after the signal was aborted. */
function createPatience(clock: Clock, stopWithinMs: number, signal: AbortSignal) {
  let stopped = false;
  let timer: Timer | undefined;
  const over = new Promise<void>((resolve) => {
    void aborted(signal).then(() => {
      if (!stopped) timer = clock.schedule(stopWithinMs, resolve);
    });
  });
  return {
    over,
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
  };
}

/** Calls the handler so that what it throws at once and what it throws later look the same. */
async function invoke(handler: TaskHandler, task: Task): Promise<unknown> {
  return handler(task);
}

function done(value: unknown): Answer {
  if (value === undefined) return { outcome: "done" };
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    return failure("bad_result", `It was done, but its result is not JSON: ${errorText(cause)}`, true);
  }
  return text === undefined
    ? failure("bad_result", "It was done, but its result is not JSON", true)
    : { outcome: "done", data: JSON.parse(text) };
}

function thrownAnswer(thrown: unknown, signal: AbortSignal): Answer {
  if (signal.aborted) return stoppedAnswer(signal, true);
  if (thrown instanceof UploadError) return failure(`upload_${thrown.kind}`, thrown.message, true);
  return failure("handler_error", errorText(thrown), true);
}

/** @internal The answer of a task that was stopped. */
export function stoppedAnswer(signal: AbortSignal, mayHaveHappened: boolean): Answer {
  const stop = signal.reason instanceof TaskStopped ? signal.reason : undefined;
  return failure(stop?.stopCause ?? "cancelled", stop?.message ?? "The task was stopped", mayHaveHappened);
}
