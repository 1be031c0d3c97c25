/** What the errors of notifiers and rooms mean for an ask whose task has certainly not reached the device. */
import type { RingErrorKind } from "@leafmesh/notifiers/contract";
import type { RoomErrorKind } from "@leafmesh/rooms/contract";
import type { Ending } from "./ask-state.ts";

type Verdict = Pick<Ending, "outcome" | "reason">;

/** The notifier did not take the ring. */
export function ringFailureEnding(kind: RingErrorKind): Verdict {
  switch (kind) {
    case "offline":
      return { outcome: "not_joined", reason: "device_offline" };
    case "dead_token":
      return { outcome: "unreachable", reason: "dead_token" };
    case "bad_credential":
      return { outcome: "unreachable", reason: "notifier_key_refused" };
    case "quota":
      return { outcome: "unreachable", reason: "notifier_quota" };
    case "transient":
      return { outcome: "unreachable", reason: "notifier_unavailable" };
    case "bad_request":
    case "too_big":
      return { outcome: "unreachable", reason: "notifier_rejected" };
    default:
      return kind satisfies never;
  }
}

/** The room could not be opened or was closed before the task, or (`sending`) certainly did not take the task. */
export function roomFailureEnding(kind: RoomErrorKind, when: "before" | "sending" = "before"): Verdict {
  switch (kind) {
    case "bad_credential":
      return { outcome: "unreachable", reason: "room_key_refused" };
    case "plan_limit":
      return { outcome: "unreachable", reason: "room_plan_limit" };
    case "too_big":
      return when === "sending"
        ? { outcome: "refused", reason: "task_too_large" }
        : { outcome: "unreachable", reason: "room_unavailable" };
    case "rate":
    case "unavailable":
    case "mismatch":
      return { outcome: "unreachable", reason: "room_unavailable" };
    default:
      return kind satisfies never;
  }
}
