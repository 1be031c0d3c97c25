/** The task as it goes to the device. */
import { type TaskEnvelope, type UploadTarget, utf8Length } from "@leafmesh/protocol";
import type { AskPlan } from "./ask-plan.ts";
import type { Refusal } from "./ask-state.ts";

type Work = Pick<AskPlan, "askId" | "action" | "inputs">;

/** @param expiresAt seconds since the epoch; the device must not start after it */
export function buildTask(
  { askId, action, inputs }: Work,
  upload: UploadTarget | undefined,
  budgetMs: number,
  expiresAt: number,
): TaskEnvelope {
  return {
    type: "task",
    id: askId,
    action,
    inputs,
    budget_ms: budgetMs,
    expires_at: expiresAt,
    ...(upload ? { upload } : {}),
  };
}

/** Longest forms of the two times, which are not known before the task is sent. */
const LONGEST_BUDGET_MS = 10_000_000_000;
const LONGEST_TIME = 10_000_000_000.123;

/** Why the task does not fit into a room, found before the device is rung. */
export function findOversize(work: Work, upload: UploadTarget | undefined, maxTaskBytes: number): Refusal | undefined {
  const bytes = utf8Length(JSON.stringify(buildTask(work, upload, LONGEST_BUDGET_MS, LONGEST_TIME)));
  if (bytes <= maxTaskBytes) return undefined;
  return {
    reason: "task_too_large",
    detail: `The task has ${bytes} bytes and the room takes at most ${maxTaskBytes}: send smaller inputs.`,
  };
}
