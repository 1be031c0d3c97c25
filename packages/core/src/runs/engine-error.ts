/** Why the engine refuses a request. Each code has one sentence that says what to do; the server maps it to a status. */
export type EngineErrorCode =
  | "no_such_session"
  | "session_ended"
  | "no_such_entry_point"
  | "too_many_devices"
  | "duplicate_device"
  | "too_many_sessions"
  | "too_many_queued_runs"
  | "no_such_run"
  | "stopping"
  | "message_too_long"
  | "invalid_device_tools"
  | "no_such_agent"
  | "bad_callback_url"
  | "idempotency_conflict";

/** A request that the engine did not carry out. Nothing of it was stored. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: EngineErrorCode;
  /** Each place that is wrong, where the code has several. */
  readonly problems: readonly { readonly field: string; readonly message: string }[];

  constructor(code: EngineErrorCode, message: string, problems: EngineError["problems"] = []) {
    super(message);
    this.code = code;
    this.problems = problems;
  }
}
