import { EngineError, type EngineErrorCode } from "@leafmesh/core";
import { type DeviceDeclaration, errorBodySchema, Secret } from "@leafmesh/protocol";
import { ApiError } from "../errors.ts";
import type { Answer } from "../route.ts";

/** Answers that every keyed route shares, for the document. */
export const refusals = {
  400: { description: "The request is not as documented; `details` names each place.", schema: errorBodySchema },
  401: { description: "No valid API key.", schema: errorBodySchema },
  404: { description: "No such thing, or not the caller's.", schema: errorBodySchema },
} satisfies Record<number, Answer>;

const STATUS: Record<EngineErrorCode, number> = {
  no_such_session: 404,
  session_ended: 410,
  no_such_entry_point: 400,
  too_many_devices: 400,
  duplicate_device: 400,
  too_many_sessions: 429,
  too_many_queued_runs: 429,
  no_such_run: 404,
  stopping: 503,
  message_too_long: 413,
  invalid_device_tools: 400,
  no_such_agent: 404,
  bad_callback_url: 422,
  idempotency_conflict: 409,
};

/** Runs `work` and turns the engine's refusals into answers. */
export async function answering<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    const status = STATUS[error.code];
    const headers: Record<string, string> = status === 429 || status === 503 ? { "retry-after": "5" } : {};
    const details = error.problems.map(({ field, message }) => ({ field, message }));
    const more = { headers, cause: error, ...(details.length > 0 ? { details } : {}) };
    throw new ApiError(status, error.code, error.message, more);
  }
}

interface WithDevices {
  readonly device?: DeviceDeclaration | undefined;
  readonly devices?: readonly DeviceDeclaration[] | undefined;
}

/**
 * The request's devices with their tokens wrapped; `undefined` when it names none. `device` and `devices` together are
 * refused, because which of them counts would be a guess.
 */
export function takeDevices({ device, devices }: WithDevices) {
  if (device && devices) {
    throw new ApiError(400, "invalid_request", "device: give either device or devices, not both", {
      details: [{ field: "device", message: "give either device or devices, not both" }],
    });
  }
  const list = device ? [device] : devices;
  return list?.map(({ push_token, ...known }) => ({ ...known, pushToken: new Secret(push_token) }));
}
