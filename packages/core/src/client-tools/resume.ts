/**
 * Takes the answer that a suspended run waits for. The current wait comes first; then a repeat of an answer that was
 * taken before, which changes nothing; then the reason why it cannot be taken, which changes nothing either.
 */
import { createHash } from "node:crypto";
import type { ApprovalInput, Clock, FieldError, ToolResultInput } from "@leafmesh/protocol";
import type { PendingCalls, Settlement } from "../calls/pending-calls.ts";
import { frameWrites } from "../runs/run-frames.ts";
import type { Backend, CallRecord, RunRecord, WaitRecord } from "../storage/contract.ts";
import { findMismatches, resultsDigest, toClientResult } from "./results.ts";
import { SUSPENDING_FACES } from "./suspension.ts";

/** An answer whose shape has been checked. */
export type Answer =
  | { readonly contract: "result"; readonly results: readonly ToolResultInput[] }
  | { readonly contract: "approval"; readonly approval: ApprovalInput }
  /** A contract that no wait has. */
  | { readonly contract: "unknown"; readonly name: string };

export type ResumeRefusalCode =
  | "tool_results_mismatch"
  | "resume_contract_mismatch"
  | "suspension_expired"
  | "not_suspended";

export interface ResumeRefusal {
  readonly status: "refused";
  readonly code: ResumeRefusalCode;
  readonly message: string;
  readonly details?: { readonly errors: readonly FieldError[]; readonly pending_tool_call_ids: readonly string[] };
}

export type Resumed =
  /** Stored; the run waits for a worker. */
  | { readonly status: "accepted"; readonly run: RunRecord; readonly waitId: string }
  /** The same answer was taken before. */
  | { readonly status: "repeated"; readonly run: RunRecord }
  | ResumeRefusal;

export interface ResumeServices {
  readonly backend: Backend;
  readonly calls: PendingCalls;
  readonly clock: Clock;
  /** Whether the wait's deadline has passed; exactly at it is in time. */
  isPast(wait: WaitRecord): boolean;
}

/** How often the answer is judged again because the run moved meanwhile. */
const MAX_TRIES = 5;

/** `undefined`: there is no such run. */
export async function takeAnswer(
  services: ResumeServices,
  runId: string,
  answer: Answer,
  answeredBy: string | undefined,
): Promise<Resumed | undefined> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const taken = await tryAnswer(services, runId, answer, answeredBy);
    if (taken !== "moved") return taken;
  }
  throw new Error(`run ${runId} was moved by others ${MAX_TRIES} times in a row`);
}

async function tryAnswer(
  { backend, calls: pending, clock, isPast }: ResumeServices,
  runId: string,
  answer: Answer,
  answeredBy: string | undefined,
): Promise<Resumed | undefined | "moved"> {
  const run = await backend.run(runId);
  if (!run) return undefined;
  const wait = run.status === "suspended" ? await openWait(backend, runId) : undefined;
  const calls = wait ? await backend.calls({ waitId: wait.id }) : [];
  const fitting = wait && fit(answer, wait, calls);
  const digest = digestOf(answer);

  if (wait && fitting?.fits && !isPast(wait)) {
    const at = clock.nowMs();
    const patch = { status: "queued" } as const;
    const settlements = new Map(
      [...fitting.results].map(([callId, result]): [string, Settlement<unknown>] => [
        callId,
        { state: "answered", reached: "yes", result, answeredBy },
      ]),
    );
    const settled = await pending.settleGroup(
      { waitId: wait.id, to: "complete", settlements, answerDigest: digest },
      {
        writes: [
          { kind: "run.update", runId, version: run.version, patch },
          ...frameWrites(run, at, "resume", { kind: "external_wait", resolved_by: "human" }),
        ],
      },
    );
    if (settled.status !== "moved") return "moved";
    return { status: "accepted", run: { ...run, ...patch, version: run.version + 1 }, waitId: wait.id };
  }
  if (await wasTaken(backend, runId, answer, digest)) return { status: "repeated", run };
  if (!wait) return refuse("not_suspended", "The run does not wait for an answer.");
  if (contractOf(wait) !== answer.contract) {
    return refuse("resume_contract_mismatch", `The run waits for an answer of the contract ${contractOf(wait)}.`);
  }
  if (isPast(wait)) return refuse("suspension_expired", "The deadline of the wait has passed.");
  const details = { errors: fitting?.errors ?? [], pending_tool_call_ids: calls.map((call) => call.providerCallId) };
  const message = "The answer does not name exactly the calls that the run waits for.";
  return { status: "refused", code: "tool_results_mismatch", message, details };
}

export async function openWait(backend: Backend, runId: string): Promise<WaitRecord | undefined> {
  const [wait] = await backend.waits({ runId, states: ["open"], faces: SUSPENDING_FACES, limit: 1 });
  return wait;
}

function contractOf({ face }: WaitRecord): "result" | "approval" {
  return face === "approval" ? "approval" : "result";
}

interface Fitting {
  readonly fits: boolean;
  /** By call id. */
  readonly results: ReadonlyMap<string, unknown>;
  readonly errors: readonly FieldError[];
}

const MISFIT: Fitting = { fits: false, results: new Map(), errors: [] };

function fit(answer: Answer, wait: WaitRecord, calls: readonly CallRecord[]): Fitting {
  if (answer.contract === "unknown" || answer.contract !== contractOf(wait)) return MISFIT;
  if (answer.contract === "approval") {
    const { tool_call_id: value, ...decision } = answer.approval;
    const [call] = calls;
    if (call && (value === undefined || value === call.providerCallId)) {
      return { fits: true, results: new Map([[call.id, decision]]), errors: [] };
    }
    const errors = [{ field: "value.tool_call_id", code: "unexpected_tool_result", value }];
    return { ...MISFIT, errors };
  }
  const errors = findMismatches(answer.results, calls);
  if (errors.length > 0) return { ...MISFIT, errors };
  const byProviderId = new Map(calls.map((call) => [call.providerCallId, call.id]));
  const results = answer.results.map(
    (result) => [byProviderId.get(result.tool_call_id) ?? "", toClientResult(result)] as const,
  );
  return { fits: true, results: new Map(results), errors: [] };
}

function digestOf(answer: Answer): string {
  if (answer.contract === "result") return resultsDigest(answer.results);
  if (answer.contract === "unknown") return "";
  const { decision, message, tool_call_id } = answer.approval;
  return createHash("sha256")
    .update(JSON.stringify([decision, message ?? null, tool_call_id ?? null]))
    .digest("hex");
}

async function wasTaken(backend: Backend, runId: string, answer: Answer, digest: string): Promise<boolean> {
  if (answer.contract === "unknown") return false;
  const faces = answer.contract === "result" ? (["client"] as const) : (["approval"] as const);
  const answered = await backend.waits({ runId, states: ["complete", "continued", "expired", "cancelled"], faces });
  return answered.some((wait) => wait.answerDigest === digest);
}

function refuse(code: ResumeRefusalCode, message: string): ResumeRefusal {
  return { status: "refused", code, message };
}
