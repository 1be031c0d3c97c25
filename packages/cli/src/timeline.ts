/** An ask's life as lines that a person can read. */
import type { AskView } from "@leafmesh/protocol";
import { clockTime, type Palette, printable, table } from "./output.ts";

interface Moment {
  readonly ts: number;
  readonly type: string;
  readonly payload: unknown;
}

/** What one ask event says, without its time. */
export function describeMoment({ type, payload }: Pick<Moment, "type" | "payload">): string {
  const fields = payload as Record<string, unknown>;
  const text = (name: string): string => printable(String(fields[name] ?? ""), 120);
  switch (type) {
    case "ask.created":
      return `${text("action") || "no action"} on ${text("device") || "no device"} (approval: ${text("approval")})`;
    case "ask.opened":
      return `room open: ${text("room_provider")}`;
    case "ask.ringing":
      return `ringing ${text("device")} through ${text("notifier")}`;
    case "ask.rung":
      return "the notifier took the ring";
    case "ask.joined":
      return `${text("device")} joined the room`;
    case "ask.sent":
      return "task sent";
    case "ask.accepted":
      return "the device has the task and starts";
    case "ask.progress":
      return `progress ${[fields.pct === undefined ? "" : `${text("pct")} %`, text("note")].filter(Boolean).join(" ")}`;
    case "ask.away":
      return `the device is away (waits ${text("grace_s")} s)`;
    case "ask.back":
      return "the device is back";
    case "ask.cancel_requested":
      return "asked to cancel";
    case "ask.late_reply":
      return `a reply came after the end and changes nothing: ${text("outcome")}`;
    case "offer.failed":
      return `${text("channel")} failed through ${text("via")}: ${text("error")}`;
    case "ask.settled":
      return describeResult(fields.result);
    default:
      return "";
  }
}

/** The outcome with its reason and its warning. */
export function describeResult(result: unknown): string {
  const { outcome, reason, may_have_happened } = result as Record<string, unknown>;
  const cause = reason ? ` (${String(reason)})` : "";
  return `${String(outcome)}${cause}${may_have_happened ? ", it may have happened" : ""}`;
}

/** Every moment of the ask on a line: time, step, seconds since its start, what happened. */
export function renderTimeline(ask: AskView, colors: Palette): string {
  const start = ask.timeline[0]?.ts ?? ask.created_at;
  return table(
    ask.timeline.map((moment) => [
      colors.dim(clockTime(moment.ts)),
      moment.type,
      colors.dim(`+${(moment.ts - start).toFixed(3)} s`),
      moment.type === "ask.settled" ? colorOutcome(describeMoment(moment), colors) : describeMoment(moment),
    ]),
  );
}

export function colorOutcome(text: string, colors: Palette): string {
  if (text.startsWith("done")) return colors.green(text);
  if (text.includes("it may have happened")) return colors.red(text);
  return colors.yellow(text);
}
