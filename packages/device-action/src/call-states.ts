/** Which settled state of a call an ending is. */
import type { Settlement } from "@leafmesh/core/calls";
import type { Ending } from "./ask-state.ts";

export function callStateOf({ outcome, reason }: Pick<Ending, "outcome" | "reason">): Settlement["state"] {
  if (reason === "cancelled") return "cancelled";
  switch (outcome) {
    case "done":
      return "answered";
    case "declined":
      return "declined";
    case "sent_for_approval":
      return "handed_off";
    case "not_joined":
    case "unreachable":
    case "refused":
      return "undeliverable";
    case "failed":
      if (reason === "device_error" || reason === "reply_too_large") return "answered";
      return reason === "no_answer" ? "expired" : "lost";
    default:
      return outcome satisfies never;
  }
}
