import { ApiError } from "./errors.ts";

/** Bounds the event streams of the process; a refusal says when to try again. */
export interface StreamLimit {
  /** Takes a place. Throws 503 `too_many_streams`. The returned function gives it back, once. */
  take(): () => void;
  readonly open: number;
}

export function createStreamLimit(max: () => number): StreamLimit {
  let open = 0;
  return {
    take() {
      if (open >= max()) {
        throw new ApiError(503, "too_many_streams", `The mesh holds limits.max_streams (${max()}) event streams.`, {
          headers: { "retry-after": "5" },
        });
      }
      open++;
      let taken = true;
      return () => {
        if (taken) open--;
        taken = false;
      };
    },
    get open() {
      return open;
    },
  };
}
