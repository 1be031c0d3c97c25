/** The runs that this process drives, each under a claim that is written into its session. */
export interface Claims {
  /** The claim under which this process drives the run. */
  of(runId: string): string | undefined;
  /** Another process drives the run by now: this one must let go of it. */
  lost(runId: string): void;
}

export interface ClaimRegister extends Claims {
  add(runId: string, claim: string, onLost: () => void): void;
  remove(runId: string, claim: string): void;
}

export function createClaims(): ClaimRegister {
  const claims = new Map<string, { readonly claim: string; readonly onLost: () => void }>();
  return {
    of: (runId) => claims.get(runId)?.claim,
    lost: (runId) => claims.get(runId)?.onLost(),
    add: (runId, claim, onLost) => void claims.set(runId, { claim, onLost }),
    remove(runId, claim) {
      if (claims.get(runId)?.claim === claim) claims.delete(runId);
    },
  };
}
