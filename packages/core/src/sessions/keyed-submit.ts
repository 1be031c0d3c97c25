/** Finds the conversation that an app calls by its own name, and the run that a repeated request led to before. */
import type { Clock } from "@leafmesh/protocol";
import { EngineError } from "../runs/engine-error.ts";
import { CommitConflict } from "../runs/run-services.ts";
import type { Backend } from "../storage/contract.ts";
import { KeyedLock } from "./keyed-lock.ts";
import { IDEMPOTENCY_KEY_LIFE_MS, type SubmitRequest, type Submitted } from "./session-service.ts";

export type SubmitRunRequest = Omit<SubmitRequest, "sessionId" | "entryPoint"> &
  Required<Pick<SubmitRequest, "agent" | "run">>;

export interface KeyedSubmitOptions {
  readonly backend: Backend;
  readonly clock: Clock;
  submit(request: SubmitRequest): Promise<Submitted>;
}

/** How often the conversation is looked for again because another process opened or ended it meanwhile. */
const MAX_TRIES = 4;

export function createKeyedSubmit({
  backend,
  clock,
  submit,
}: KeyedSubmitOptions): (request: SubmitRunRequest) => Promise<Submitted> {
  const locks = new KeyedLock();
  const inTurn = <Value>(name: readonly unknown[] | undefined, work: () => Promise<Value>): Promise<Value> =>
    name ? locks.run(JSON.stringify(name), work) : work();

  /** What the request became within the key's life. Throws `idempotency_conflict` when the key came with another request. */
  const known = async ({ owner, idempotency }: SubmitRunRequest): Promise<Submitted | undefined> => {
    const stored = idempotency && (await backend.idempotency(owner, idempotency.key));
    if (!stored || stored.createdAt < clock.nowMs() - IDEMPOTENCY_KEY_LIFE_MS) return undefined;
    if (stored.requestDigest !== idempotency.digest) {
      throw new EngineError("idempotency_conflict", "This Idempotency-Key came with another request before.");
    }
    const run = await backend.run(stored.runId);
    return run && { sessionId: run.sessionId, runId: run.id, agent: run.agent };
  };

  const intoConversation = async (request: SubmitRunRequest): Promise<Submitted> => {
    const { owner, sessionKey } = request;
    if (sessionKey === undefined) return submit(request);
    for (let tries = 1; ; tries++) {
      const session = await backend.sessionByKey(owner, sessionKey);
      try {
        return await submit(session ? { ...request, sessionId: session.id } : request);
      } catch (error) {
        if (tries === MAX_TRIES || !isOvertaken(error)) throw error;
      }
    }
  };

  const once = async (request: SubmitRunRequest): Promise<Submitted> => {
    const before = await known(request);
    if (before) return before;
    try {
      const { owner = null, sessionKey } = request;
      return await inTurn(sessionKey === undefined ? undefined : ["session", owner, sessionKey], () =>
        intoConversation(request),
      );
    } catch (error) {
      const meanwhile = isOvertaken(error) ? await known(request) : undefined;
      if (meanwhile) return meanwhile;
      throw error;
    }
  };

  return (request) =>
    inTurn(request.idempotency && ["request", request.owner ?? null, request.idempotency.key], () => once(request));
}

/** Another process was faster: it opened the conversation, ended it, or took the same request. */
function isOvertaken(error: unknown): boolean {
  return error instanceof CommitConflict || (error instanceof EngineError && error.code === "session_ended");
}
