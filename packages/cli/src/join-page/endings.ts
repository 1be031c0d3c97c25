/** The last words of the page. Pure. */
import type { RingDisposition } from "@leafmesh/device";
import type { LinkTrouble } from "./opened-link.ts";

type Words = readonly [title: string, text: string];

export const LINK_WORDS: Readonly<Record<LinkTrouble, Words>> = {
  link_used: [
    "This link was used already",
    "A link works once. If you did not open it yourself, tell whoever sent it.",
  ],
  link_over: ["The time of this request is over", "Nothing was done. If it still matters, ask for a new link."],
  no_such_link: ["This link leads nowhere", "It was used or ended a while ago, or not all of the address was copied."],
  unreachable: ["The request could not be opened", "Check your connection and load this page again."],
};

/** What became of the request, as far as this page knows. */
export function endingOf(disposition: RingDisposition): Words {
  switch (disposition.status) {
    case "answered":
      return answered(disposition);
    case "refused":
      return disposition.told
        ? ["You did not allow it", "Nothing was done, and whoever asked knows that you did not allow it."]
        : ["You did not allow it", "Nothing was done."];
    case "no_decision":
      return LINK_WORDS.link_over;
    case "not_joined":
      return [
        "The request has ended",
        "It was over, or could not be reached, before this page could answer. Nothing was done.",
      ];
    case "no_task":
      return ["The request has ended", "It was withdrawn before anything was to be done."];
    case "ignored":
      return disposition.reason === "expired" || disposition.reason === "bad_times"
        ? [
            "The time of this request is over",
            "Nothing was done. If it should not be over yet, check this phone's clock.",
          ]
        : ["This request cannot be answered here", `Nothing was done: ${disposition.detail}.`];
    default:
      return disposition satisfies never;
  }
}

function answered(disposition: Extract<RingDisposition, { status: "answered" }>): Words {
  if (!disposition.delivered) {
    return ["Your answer did not arrive", "The connection was lost. Tell whoever asked what you did."];
  }
  switch (disposition.outcome) {
    case "done":
      return ["Thank you", "Your answer was sent. You can close this page."];
    case "declined":
      return ["You declined", "Whoever asked knows that you declined. You can close this page."];
    case "failed":
      return disposition.code === "person_could_not"
        ? ["Thank you", "Whoever asked knows that it could not be done. You can close this page."]
        : ["The request has ended", "It ended before your answer. If you did something, tell whoever asked."];
    case "sent_for_approval":
      return ["Waiting for approval", "You can close this page."];
    default:
      return disposition.outcome satisfies never;
  }
}
