/** Verdicts of connection tests. */
import { type CheckResult, RingError } from "../contract.ts";

/**
 * The verdict of `work`, with what it throws turned into one: a refused credential is `failing`, everything that says
 * nothing about the credential (network, quota, an answer that makes no sense) is `readable`. Throws only bugs.
 */
export async function checkResult(work: () => Promise<CheckResult>): Promise<CheckResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof RingError)) throw error;
    const { kind, message: reason } = error;
    return { status: kind === "bad_credential" ? "failing" : "readable", reason };
  }
}
