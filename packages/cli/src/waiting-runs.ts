/** Runs of a conversation that wait for somebody outside. */
import { type Client, LeafMeshError } from "@leafmesh/client";
import { FINAL_RUN_STATUSES, type RunState } from "@leafmesh/protocol";

export interface WaitingRun {
  readonly runId: string;
  readonly suspension: NonNullable<RunState["suspension"]>;
}

/** Reads the conversation's events up to now: runs that began and did not end are asked how they stand. */
export async function waitingRuns(
  mesh: Client,
  sessionId: string,
  signal: AbortSignal,
): Promise<readonly WaitingRun[]> {
  const open = new Set<string>();
  for await (const event of mesh.session(sessionId).events({ signal })) {
    if (event.type === "session_state" || event.type === "stream_end") break;
    if (event.type === "run.queued") open.add(event.payload.run_id);
    if (event.type === "run.finished" && FINAL_RUN_STATUSES.has(event.payload.status))
      open.delete(event.payload.run_id);
  }
  const states = await Promise.all([...open].map((runId) => stateOf(mesh, runId, signal)));
  return states.flatMap((state) => (state?.suspension ? [{ runId: state.run_id, suspension: state.suspension }] : []));
}

/** Only runs that were submitted by themselves have a state; the others wait for nobody. */
async function stateOf(mesh: Client, runId: string, signal: AbortSignal): Promise<RunState | undefined> {
  try {
    return await mesh.run(runId).state({ signal });
  } catch (error) {
    if (error instanceof LeafMeshError && error.status === 404) return undefined;
    throw error;
  }
}
