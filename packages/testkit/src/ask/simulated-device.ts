/**
 * A device that keeps to the rules: it stores a task's id before acting, answers a repeat from its record, does not
 * begin an expired task, and after a crash says that it does not know. It crashes, dawdles and refuses as planned.
 */
import type { Clock, ReplyEnvelope, Ring, TaskEnvelope } from "@leafmesh/protocol";
import { DeviceLedger, type LedgerEntry } from "./device-ledger.ts";
import type { CrashFault, FaultPlan } from "./fault-plan.ts";
import type { DeviceSeat, FaultyRoom } from "./faulty-room.ts";
import { createRandom, type Random } from "./random.ts";
import { sleep } from "./sleep.ts";

export interface SimulatedDeviceOptions {
  readonly clock: Clock;
  planOf(askId: string): FaultPlan;
  /** The room that a ring leads to, if it is still there. */
  roomOf(ring: Ring): FaultyRoom | undefined;
}

/** One life between two crashes; what was begun in an earlier one is not continued. */
interface Life {
  isOver: boolean;
}

export class SimulatedDevice {
  readonly ledger = new DeviceLedger();
  readonly #options: SimulatedDeviceOptions;
  readonly #seen = new Set<string>();
  readonly #cancelled = new Set<string>();
  readonly #seats = new Map<string, DeviceSeat>();
  #life: Life = { isOver: false };

  constructor(options: SimulatedDeviceOptions) {
    this.#options = options;
  }

  /** A second ring of the same ask changes nothing. */
  ring(ring: Ring): void {
    if (this.#seen.has(ring.ask)) return;
    this.#seen.add(ring.ask);
    void this.#answerRing(ring, this.#options.planOf(ring.ask));
  }

  async #answerRing(ring: Ring, plan: FaultPlan): Promise<void> {
    const { clock, roomOf } = this.#options;
    const random = createRandom(plan.seed + 1);
    const untilExpiryMs = ring.exp * 1000 - clock.nowMs();
    await sleep(
      clock,
      plan.join === "at_the_deadline" ? untilExpiryMs + random.between(-800, 1_200) : plan.joinAfterMs,
    );
    if (plan.join === "never") return;
    if (this.#now(plan) > ring.exp * 1000) return;
    const room = roomOf(ring);
    if (!room) return;
    if (plan.join === "not_allowed") {
      room.refuse();
      return;
    }
    const capabilities = plan.join === "cannot_do_it" ? [{ name: "something_else" }] : undefined;
    const seat = room.takeSeat(capabilities, {
      onTask: (task) => void this.#receive(task, plan, random),
      onCancel: () => this.#cancelled.add(ring.ask),
    });
    if (!seat) return;
    this.#seats.set(ring.ask, seat);
    if (plan.join === "leaves_at_once") seat.leave();
  }

  async #receive(task: TaskEnvelope, plan: FaultPlan, random: Random): Promise<void> {
    const { clock } = this.#options;
    const life = this.#life;
    const seat = this.#seats.get(task.id);
    const deeds = this.ledger.deeds(task.id);
    const known = this.ledger.entry(task.id);
    if (life.isOver || !seat) return;
    if (known) {
      deeds.ignored++;
      if (known.reply) seat.send(known.reply);
      return;
    }
    await sleep(clock, random.between(0, 30));
    if (life.isOver || this.ledger.entry(task.id)) return;
    const isExpired = task.expires_at !== undefined && this.#now(plan) > task.expires_at * 1000;
    if (isExpired || seat.isClosed || this.#cancelled.has(task.id)) {
      deeds.ignored++;
      return;
    }
    if (this.#crashes("before_storing", plan, random)) return;
    const entry = this.ledger.accept(task.id);
    if (this.#crashes("after_storing", plan, random)) return;
    seat.send({ type: "accepted", id: task.id });
    await this.#work(task.id, entry, seat, plan, random, life);
  }

  async #work(
    id: string,
    entry: LedgerEntry,
    seat: DeviceSeat,
    plan: FaultPlan,
    random: Random,
    life: Life,
  ): Promise<void> {
    const { clock } = this.#options;
    const deeds = this.ledger.deeds(id);
    const answer = (reply: Omit<ReplyEnvelope, "type" | "id">): void => {
      entry.reply = { type: "reply", id, ...reply };
      if (this.#crashes("after_answering", plan, random)) return;
      seat.send(entry.reply);
    };
    if (plan.answer === "declined" || plan.answer === "sent_for_approval") {
      answer({ outcome: plan.answer });
      return;
    }
    deeds.starts++;
    await sleep(clock, plan.workMs / 2);
    if (life.isOver) return;
    seat.send({ type: "progress", id, pct: 50 });
    if (this.#cancelled.has(id)) {
      answer({ outcome: "failed", error: { code: "cancelled", message: "stopped before it took effect" } });
      return;
    }
    if (plan.crash === "while_acting") {
      if (random.chance(0.5)) deeds.effects++;
      this.#crash(random);
      return;
    }
    if (plan.answer === "done" || (plan.answer === "unsure" && random.chance(0.5))) deeds.effects++;
    await sleep(clock, plan.workMs / 2);
    if (life.isOver || this.#crashes("after_acting", plan, random)) return;
    switch (plan.answer) {
      case "done":
        answer({ outcome: "done", data: { did: id } });
        break;
      case "failed":
        answer({ outcome: "failed", error: { code: "planned", message: "it did not work" } });
        break;
      case "unsure":
        answer({ outcome: "failed", error: { code: "unsure", message: "no idea", may_have_happened: true } });
        break;
      default:
        plan.answer satisfies never;
    }
  }

  #crashes(at: CrashFault, plan: FaultPlan, random: Random): boolean {
    if (plan.crash !== at) return false;
    this.#crash(random);
    return true;
  }

  /** Everything but the ledger is lost. Back up, the device answers for what it had begun, where a room still listens. */
  #crash(random: Random): void {
    const { clock } = this.#options;
    this.#life.isOver = true;
    const life: Life = { isOver: false };
    for (const seat of this.#seats.values()) seat.drop();
    clock.schedule(random.between(100, 12_000), () => {
      this.#life = life;
      for (const entry of this.ledger.unanswered()) {
        const error = { code: "outcome_unknown", message: "the device was restarted", may_have_happened: true };
        entry.reply = { type: "reply", id: entry.id, outcome: "failed", error };
      }
      for (const [id, seat] of this.#seats) {
        const reply = this.ledger.entry(id)?.reply;
        if (random.chance(0.6) && seat.resume() && reply) seat.send(reply);
      }
    });
  }

  #now(plan: FaultPlan): number {
    return this.#options.clock.nowMs() + plan.clockOffMs;
  }
}
