/** What goes wrong with one ask, decided before it starts, as data. */
import type { RingErrorKind } from "@leafmesh/notifiers/contract";
import type { ReplyOutcome } from "@leafmesh/protocol";
import type { RoomErrorKind } from "@leafmesh/rooms/contract";
import type { Random } from "./random.ts";

/** How opening the room goes wrong. `once`: the second try works. */
export type OpenFault =
  | { readonly type: "error"; readonly kind: RoomErrorKind; readonly once: boolean }
  /** No answer at all, not even to being given up. */
  | { readonly type: "hang" }
  /** The room comes long after it was given up. */
  | { readonly type: "late" }
  /** The adapter breaks its contract. */
  | { readonly type: "bug" };

export type RingFault =
  | { readonly type: "error"; readonly kind: RingErrorKind; readonly once: boolean }
  /** The push service says no, and the device rings all the same. */
  | { readonly type: "error_after_delivery"; readonly kind: RingErrorKind }
  | { readonly type: "hang" }
  | { readonly type: "lost" }
  | { readonly type: "late" }
  | { readonly type: "twice" }
  | { readonly type: "bug" };

/** What the device does about the ring. */
export type JoinFault =
  | "not_allowed"
  | "never"
  | "at_the_deadline"
  | "leaves_at_once"
  | "away_before_task"
  | "joins_twice"
  | "join_not_reported"
  | "cannot_do_it";

/** What becomes of the task on its way. The room says `handed` in all of these but `not_handed`. */
export type SendFault =
  | "not_handed"
  | "lost"
  | "late"
  | "very_late"
  | "twice"
  | "verdict_late"
  | "verdict_never"
  | "bug";

/** How the device goes down. It keeps its ledger and comes back. */
export type CrashFault = "before_storing" | "after_storing" | "while_acting" | "after_acting" | "after_answering";

export type ReplyFault =
  | "lost"
  | "late"
  | "twice"
  | "contradicted"
  | "never"
  | "too_large"
  | "too_deep"
  | "other_ask"
  /** Somebody claims that it is done before there is a task. */
  | "before_the_task"
  | "from_somebody_else";

export type RoomFault =
  | { readonly type: "closes"; readonly afterMs: number }
  /** The device's link goes down at this time; `back` says whether it returns within the grace. */
  | { readonly type: "link_down"; readonly afterMs: number; readonly back: boolean }
  /** Presence events come in the wrong order. */
  | { readonly type: "presence_mixed_up" };

/** What somebody does to the ask from outside. */
export type Interference =
  | { readonly type: "cancel_ask"; readonly afterMs: number }
  | { readonly type: "cancel_run"; readonly afterMs: number }
  | { readonly type: "run_ends"; readonly afterMs: number };

export interface FaultPlan {
  readonly open?: OpenFault | undefined;
  readonly ring?: RingFault | undefined;
  readonly join?: JoinFault | undefined;
  readonly send?: SendFault | undefined;
  readonly crash?: CrashFault | undefined;
  readonly reply?: ReplyFault | undefined;
  readonly room?: RoomFault | undefined;
  readonly interference?: Interference | undefined;
  /** What the device answers when all goes well. `unsure` is a failure whose effect it does not know. */
  readonly answer: ReplyOutcome | "unsure";
  readonly latencyMs: number;
  readonly joinAfterMs: number;
  readonly workMs: number;
  /** How far the device's wall clock is off; negative is behind. */
  readonly clockOffMs: number;
  readonly seed: number;
}

/** Draws a plan. About a third of all asks meet no fault at all. */
export function drawFaultPlan(random: Random): FaultPlan {
  const rarely = <Fault>(draw: () => Fault): Fault | undefined => (random.chance(0.11) ? draw() : undefined);
  return {
    open: rarely(() => drawOpenFault(random)),
    ring: rarely(() => drawRingFault(random)),
    join: rarely(() =>
      random.pick<JoinFault>([
        "not_allowed",
        "never",
        "at_the_deadline",
        "leaves_at_once",
        "away_before_task",
        "joins_twice",
        "join_not_reported",
        "cannot_do_it",
      ]),
    ),
    send: rarely(() =>
      random.pick<SendFault>([
        "not_handed",
        "lost",
        "late",
        "very_late",
        "twice",
        "verdict_late",
        "verdict_never",
        "bug",
      ]),
    ),
    crash: rarely(() =>
      random.pick<CrashFault>(["before_storing", "after_storing", "while_acting", "after_acting", "after_answering"]),
    ),
    reply: rarely(() =>
      random.pick<ReplyFault>([
        "lost",
        "late",
        "twice",
        "contradicted",
        "never",
        "too_large",
        "too_deep",
        "other_ask",
        "before_the_task",
        "from_somebody_else",
      ]),
    ),
    room: rarely(() => drawRoomFault(random)),
    interference: random.chance(0.06) ? drawInterference(random) : undefined,
    answer: random.chance(0.75)
      ? "done"
      : random.pick(["done", "failed", "declined", "sent_for_approval", "unsure", "unsure"]),
    latencyMs: random.between(1, 400),
    joinAfterMs: random.between(10, 8_000),
    workMs: random.chance(0.06) ? random.between(20_000, 90_000) : random.between(5, 5_000),
    clockOffMs: random.chance(0.2) ? random.between(-300_000, 300_000) : 0,
    seed: random.between(0, 2 ** 31),
  };
}

function drawOpenFault(random: Random): OpenFault {
  const kinds = ["bad_credential", "plan_limit", "rate", "too_big", "unavailable", "mismatch"] as const;
  return random.pick<OpenFault>([
    { type: "error", kind: random.pick(kinds), once: random.chance(0.5) },
    { type: "error", kind: random.pick(kinds), once: random.chance(0.5) },
    { type: "hang" },
    { type: "late" },
    { type: "bug" },
  ]);
}

function drawRingFault(random: Random): RingFault {
  const kind = random.pick<RingErrorKind>([
    "dead_token",
    "offline",
    "bad_credential",
    "quota",
    "transient",
    "bad_request",
    "too_big",
  ]);
  return random.pick<RingFault>([
    { type: "error", kind, once: false },
    { type: "error", kind: "transient", once: true },
    { type: "error_after_delivery", kind },
    { type: "hang" },
    { type: "lost" },
    { type: "late" },
    { type: "twice" },
    { type: "bug" },
  ]);
}

function drawRoomFault(random: Random): RoomFault {
  return random.pick<RoomFault>([
    { type: "closes", afterMs: random.between(0, 20_000) },
    { type: "link_down", afterMs: random.between(0, 15_000), back: random.chance(0.5) },
    { type: "link_down", afterMs: random.between(0, 15_000), back: random.chance(0.5) },
    { type: "presence_mixed_up" },
  ]);
}

function drawInterference(random: Random): Interference {
  const afterMs = random.between(0, 20_000);
  return random.pick<Interference>([
    { type: "cancel_ask", afterMs },
    { type: "cancel_run", afterMs },
    { type: "run_ends", afterMs },
  ]);
}

/** Names of the faults of a plan, for counting. */
export function faultNames(plan: FaultPlan): readonly string[] {
  const named = (step: string, fault: string | { readonly type: string } | undefined): readonly string[] =>
    fault === undefined ? [] : [`${step}: ${typeof fault === "string" ? fault : fault.type}`];
  return [
    ...named("open", plan.open),
    ...named("ring", plan.ring),
    ...named("join", plan.join),
    ...named("send", plan.send),
    ...named("device crash", plan.crash),
    ...named("reply", plan.reply),
    ...named("room", plan.room),
    ...named("outside", plan.interference),
    ...(plan.clockOffMs === 0 ? [] : ["device clock: off"]),
    ...(plan.workMs > 10_000 ? ["device: slow"] : []),
  ];
}
