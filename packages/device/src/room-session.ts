/** What a device does in a room: one task, at most once, and an answer that stays the same. */
import { type Clock, deadline, type Logger, type Ring, type TaskEnvelope, utf8Length } from "@leafmesh/protocol";
import { type Answer, failure } from "./answers.ts";
import type { DeviceRoom, DeviceRoomEvent } from "./connector.ts";
import { errorText } from "./error-text.ts";
import type { DeviceEvent, RingDisposition } from "./events.ts";
import { runHandler, stoppedAnswer, type TaskHandler, TaskStopped } from "./handlers.ts";
import type { Ledger, LedgerRecord } from "./ledger.ts";
import { CLOCK_SKEW_MS } from "./ring-gate.ts";

export interface SessionDependencies {
  readonly handlers: Readonly<Record<string, TaskHandler>>;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly fetch: typeof globalThis.fetch;
  readonly emit: (event: DeviceEvent) => void;
  /** How long a stopped handler may take to end. */
  readonly stopWithinMs: number;
  /** How long the room may take to have the answer, a lost link included. */
  readonly deliverWithinMs: number;
}

/** When a ring came, on both of the clock's scales. */
export interface RungAt {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export interface SessionRequest {
  readonly room: DeviceRoom;
  readonly ring: Ring;
  readonly rungAt: RungAt;
  /** What the ledger said before joining. */
  readonly recorded: LedgerRecord | undefined;
  /** How long to wait for the task. */
  readonly taskWithinMs: number;
  /** Aborted when the device is closed. */
  readonly signal: AbortSignal;
}

const DELIVER_ON_CLOSE_MS = 2000;

/** Serves the room to its end and leaves it. Never rejects. */
export async function serveRoom(request: SessionRequest, dependencies: SessionDependencies): Promise<RingDisposition> {
  const session = new RoomSession(request, dependencies);
  return session.serve();
}

class RoomSession {
  readonly #request: SessionRequest;
  readonly #dependencies: SessionDependencies;
  /** Aborted with a {@link TaskStopped} when the answer is not wanted any more. */
  readonly #stop = new AbortController();
  #work: Promise<RingDisposition> | undefined;
  #answer: Answer | undefined;
  #withoutTask: RingDisposition = { status: "no_task", reason: "no_task_in_time", detail: "the mesh sent no task" };

  constructor(request: SessionRequest, dependencies: SessionDependencies) {
    this.#request = request;
    this.#dependencies = dependencies;
  }

  async serve(): Promise<RingDisposition> {
    const { room, signal, taskWithinMs } = this.#request;
    const taskWait = this.#dependencies.clock.schedule(taskWithinMs, () => this.#leaveWithoutTask("no task came"));
    const deviceClosed = (): void => {
      this.#withoutTask = { status: "no_task", reason: "device_closed", detail: "the device was closed" };
      this.#stop.abort(new TaskStopped("device_closed", "The device program was closed"));
      this.#leaveWithoutTask("the device was closed");
    };
    if (signal.aborted) deviceClosed();
    else signal.addEventListener("abort", deviceClosed);
    try {
      for await (const event of room.events) this.#handle(event);
    } catch (cause) {
      this.#handle({ type: "closed", reason: "protocol", detail: `the connector failed: ${errorText(cause)}` });
    }
    taskWait.cancel();
    const disposition = (await this.#work) ?? this.#withoutTask;
    signal.removeEventListener("abort", deviceClosed);
    return disposition;
  }

  #leaveWithoutTask(reason: string): void {
    if (!this.#work) void this.#request.room.leave(reason);
  }

  #handle(event: DeviceRoomEvent): void {
    const { emit } = this.#dependencies;
    const ask = this.#request.ring.ask;
    switch (event.type) {
      case "away":
      case "back":
        emit({ type: event.type, ask });
        return;
      case "closed": {
        const { reason, detail } = event;
        emit({ type: "closed", ask, reason, detail });
        this.#withoutTask = { status: "no_task", reason, detail };
        this.#stop.abort(new TaskStopped("room_ended", `The room ended: ${detail}`));
        return;
      }
      case "envelope":
        if (event.envelope.type === "task") this.#task(event.envelope);
        else if (event.envelope.id === ask) this.#cancel(event.envelope.reason);
        return;
      default:
        event satisfies never;
    }
  }

  #cancel(reason: string): void {
    this.#dependencies.emit({ type: "cancelled", ask: this.#request.ring.ask, reason });
    this.#stop.abort(new TaskStopped("cancelled", `The mesh cancelled the task: ${reason}`));
  }

  #task(task: TaskEnvelope): void {
    if (this.#work) {
      // The same task again: it is being worked on, or was answered and the answer may have been missed.
      if (task.id === this.#request.ring.ask && this.#answer) this.#send(this.#answer);
      return;
    }
    this.#work = this.#serveTask(task).finally(() => this.#request.room.leave("done"));
    // Awaited when the room's events end; until then nobody looks.
    this.#work.catch(() => {});
  }

  async #serveTask(task: TaskEnvelope): Promise<RingDisposition> {
    const { ring, recorded } = this.#request;
    this.#dependencies.emit({ type: "task", ask: task.id, action: task.action, budgetMs: task.budget_ms });
    if (task.id !== ring.ask) {
      return {
        status: "no_task",
        reason: "wrong_task",
        detail: `the task "${task.id}" is not the one that was rung for`,
      };
    }
    if (recorded) return this.#settle(answerOf(recorded), true);
    const fault = this.#whyNotToBegin(task);
    if (fault) return this.#settle(fault, false);
    return this.#actOnce(task);
  }

  /** Reasons to answer without beginning. Nothing is done, so nothing has to be remembered first. */
  #whyNotToBegin(task: TaskEnvelope): Answer | undefined {
    if (task.budget_ms === 0 || this.#isExpired(task)) {
      return failure("expired", "The task's time was over when it reached the device", false);
    }
    if (!Object.hasOwn(this.#dependencies.handlers, task.action)) {
      const known = Object.keys(this.#dependencies.handlers).join(", ");
      return failure("unknown_action", `This device cannot do "${task.action}"; it can do: ${known}`, false);
    }
    return this.#stop.signal.aborted ? stoppedAnswer(this.#stop.signal, false) : undefined;
  }

  /**
   * Whether `expires_at` has passed, on a clock that may be off. The mesh wrote the ring before it was received, so this
   * clock is ahead of the mesh's by at most the ring's age on arrival: that much is forgiven, and never more than a minute.
   */
  #isExpired({ expires_at: expiresAt }: TaskEnvelope): boolean {
    if (expiresAt === undefined) return false;
    const { ring, rungAt } = this.#request;
    const ringAgeMs = rungAt.wallMs - ring.iat * 1000;
    const { clock } = this.#dependencies;
    const nowMs = rungAt.wallMs + (clock.monotonicMs() - rungAt.monotonicMs);
    return nowMs - Math.min(ringAgeMs, CLOCK_SKEW_MS) > expiresAt * 1000;
  }

  async #actOnce(task: TaskEnvelope): Promise<RingDisposition> {
    const { ledger, clock, logger } = this.#dependencies;
    const { signal } = this.#stop;
    const budget = clock.schedule(task.budget_ms, () => {
      this.#stop.abort(new TaskStopped("timed_out", `The task was not done within ${task.budget_ms} ms`));
    });
    try {
      let known: LedgerRecord | undefined;
      try {
        known = await ledger.claim({ id: task.id, state: "accepted", at: clock.nowMs() });
      } catch (cause) {
        logger.error("The ledger does not take records; the task is not begun.", { reason: errorText(cause) });
        return await this.#settle(failure("ledger_unavailable", "The device cannot store what it does", false), false);
      }
      if (known) return await this.#settle(answerOf(known), true);
      if (signal.aborted) return await this.#settle(stoppedAnswer(signal, false), false);
      if (this.#request.room.send({ type: "accepted", id: task.id }) !== "queued") {
        return await this.#settle(failure("room_ended", "The room ended before the task was begun", false), false);
      }
      return await this.#settle(await this.#act(task), false);
    } finally {
      budget.cancel();
    }
  }

  async #act(task: TaskEnvelope): Promise<Answer> {
    const { handlers, clock, emit, fetch, stopWithinMs } = this.#dependencies;
    const handler = handlers[task.action];
    if (!handler) return failure("unknown_action", `This device cannot do "${task.action}"`, false);
    const startedMs = clock.monotonicMs();
    emit({ type: "accepted", ask: task.id, action: task.action });
    const answer = await runHandler({
      handler,
      task,
      mesh: this.#request.ring.mesh,
      signal: this.#stop.signal,
      clock,
      fetch,
      stopWithinMs,
      sendProgress: (progress) => void this.#request.room.send({ type: "progress", id: task.id, ...progress }),
    });
    emit({ type: "handled", ask: task.id, action: task.action, durationMs: clock.monotonicMs() - startedMs });
    return answer;
  }

  /** Stores the answer, sends it, and waits until the room has it. */
  async #settle(wanted: Answer, repeated: boolean): Promise<RingDisposition> {
    const { ledger, clock, logger, emit } = this.#dependencies;
    const ask = this.#request.ring.ask;
    const answer = this.#fitting(wanted);
    const record: LedgerRecord = { id: ask, state: "answered", at: clock.nowMs(), answer };
    const store = async (changed: LedgerRecord): Promise<void> => {
      try {
        await ledger.put(changed);
      } catch (cause) {
        logger.error("The answer could not be stored; a repeat of this ask would be answered as unknown.", {
          ask,
          reason: errorText(cause),
        });
      }
    };
    await store(record);
    this.#answer = answer;
    const code = answer.error?.code;
    let delivered = false;
    if (this.#send(answer) === "queued") {
      emit({ type: "replied", ask, outcome: answer.outcome, code, repeated });
      delivered = await this.#delivered();
    }
    if (delivered) {
      emit({ type: "delivered", ask });
      await store({ ...record, delivered });
    }
    return { status: "answered", outcome: answer.outcome, code, delivered, repeated };
  }

  /** Whether the room has the answer. A device that is being closed does not wait long for a link that is down. */
  async #delivered(): Promise<boolean> {
    const { room, signal } = this.#request;
    const limit = deadline(this.#dependencies.clock, this.#dependencies.deliverWithinMs);
    const hurry = (): void => limit.shorten(DELIVER_ON_CLOSE_MS);
    if (signal.aborted) hurry();
    else signal.addEventListener("abort", hurry, { once: true });
    try {
      return await room.acked(limit.signal);
    } finally {
      signal.removeEventListener("abort", hurry);
      limit.dispose();
    }
  }

  #send(answer: Answer) {
    return this.#request.room.send({ type: "reply", id: this.#request.ring.ask, ...answer });
  }

  /** The answer, or in its place the sentence that it does not fit. */
  #fitting(answer: Answer): Answer {
    const bytes = utf8Length(JSON.stringify({ type: "reply", id: this.#request.ring.ask, ...answer }));
    const { maxEnvelopeBytes } = this.#request.room;
    if (bytes <= maxEnvelopeBytes) return answer;
    return failure(
      "reply_too_large",
      `The action ended with "${answer.outcome}", but its answer has ${bytes} bytes and the room takes ${maxEnvelopeBytes}`,
      true,
    );
  }
}

/** What a device says about an ask that it has seen before. */
function answerOf(record: LedgerRecord): Answer {
  if (record.answer) return record.answer;
  if (record.state === "refused") {
    return { outcome: "declined", error: { message: "The person did not allow the connection" } };
  }
  return failure(
    "outcome_unknown",
    "The device was interrupted after it had begun, and cannot say whether it was done",
    true,
  );
}
