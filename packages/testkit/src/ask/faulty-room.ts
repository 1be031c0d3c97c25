/** One room that goes wrong as planned. */
import type { Capability, Clock, DeviceEnvelope, ReplyEnvelope, TaskEnvelope } from "@leafmesh/protocol";
import { type Delivered, type Room, RoomError, type RoomEvent, type Sent } from "@leafmesh/rooms/contract";
import { EventQueue } from "./event-queue.ts";
import type { FaultPlan } from "./fault-plan.ts";
import type { LossProfile } from "./loss-profiles.ts";
import { createRandom, type Random } from "./random.ts";
import { sleep } from "./sleep.ts";

const GRACE_MS = 15_000;

/** What became of one ask's room and task, for whoever checks what the mesh said about it. */
export interface RoomRecord {
  opened: number;
  closed: number;
  /** The mesh gave the task to the room. */
  sendCalled: boolean;
  /** What the room said of it; `none` while it said nothing. */
  verdict: "none" | "handed" | "not_handed";
  /** On the monotonic clock. */
  verdictAtMs: number | undefined;
  /** The room said, after the task was handed over, that it certainly never arrives. */
  saidNeverDelivered: boolean;
}

/** The device's side of a room. */
export interface DeviceSeat {
  readonly isClosed: boolean;
  send(envelope: DeviceEnvelope): void;
  /** A clean goodbye. */
  leave(): void;
  /** The device went down: the room notices after a while. */
  drop(): void;
  /** The device is up again and takes its seat back, if the room still has it. */
  resume(): boolean;
}

export interface SeatHandlers {
  onTask(task: TaskEnvelope): void;
  onCancel(): void;
}

/** Where the task is, as only the room knows. */
type Whereabouts = "not_sent" | "on_its_way" | "held" | "lost" | "arrived" | "dropped";

export class FaultyRoom implements Room {
  readonly label: string;
  readonly join: Room["join"];
  readonly maxTaskBytes = 64 * 1024;
  readonly events = new EventQueue<RoomEvent>();
  readonly record: RoomRecord = {
    opened: 0,
    closed: 0,
    sendCalled: false,
    verdict: "none",
    verdictAtMs: undefined,
    saidNeverDelivered: false,
  };
  /** The reply that the room keeps for a mesh that lost its seat. */
  keptReply: ReplyEnvelope | undefined;

  readonly #askId: string;
  readonly #plan: FaultPlan;
  readonly #clock: Clock;
  readonly #random: Random;
  #isOver = false;
  #link: "absent" | "up" | "down" | "gone" = "absent";
  #handlers: SeatHandlers | undefined;
  #seatClosed = false;
  #task: TaskEnvelope | undefined;
  #whereabouts: Whereabouts = "not_sent";
  /** What the device sent while its link was down; it goes out when the link is back. */
  #unsent: DeviceEnvelope[] = [];
  /** The device went down and does not know any more what it had sent. */
  #forgotten = false;
  readonly #profile: LossProfile | undefined;
  /** The mesh was told that the link is down. */
  #downIsTold = false;
  /** The device said something of the task, and the mesh heard it. */
  #heardOfTask = false;
  /** Counts the times that the link went down, so that what was seen of an earlier one is not taken for this one. */
  #downs = 0;

  /** Without a profile the room knows whatever any room could. */
  constructor(askId: string, plan: FaultPlan, clock: Clock, profile?: LossProfile) {
    this.#profile = profile;
    this.#askId = askId;
    this.#plan = plan;
    this.#clock = clock;
    this.#random = createRandom(plan.seed);
    this.label = `room-of-${askId}`;
    this.join = { provider: "faulty", room: this.label, token: "only-for-this-room" };
    if (plan.room?.type === "closes") clock.schedule(plan.room.afterMs, () => this.#closeByItself());
    if (plan.room?.type === "link_down") clock.schedule(plan.room.afterMs, () => this.#linkDown());
  }

  async send(task: TaskEnvelope): Promise<Sent> {
    const clock = this.#clock;
    const plan = this.#plan;
    this.record.sendCalled = true;
    if (this.#isOver || this.#link === "gone" || this.#link === "absent" || plan.send === "not_handed") {
      await sleep(clock, plan.latencyMs);
      this.#decide("not_handed");
      const kind = this.#random.pick(["bad_credential", "plan_limit", "rate", "too_big", "unavailable"] as const);
      return { status: "not_handed", error: new RoomError(kind, "planned: the task did not leave") };
    }
    this.#task = task;
    this.#dispatch(task);
    if (plan.send === "verdict_never") return new Promise<never>(() => {});
    await sleep(clock, plan.send === "verdict_late" ? this.#random.between(500, 70_000) : plan.latencyMs / 2);
    if (plan.send === "bug") throw new Error("planned: the room adapter is broken");
    this.#decide("handed");
    return { status: "handed" };
  }

  #decide(verdict: "handed" | "not_handed"): void {
    this.record.verdict = verdict;
    this.record.verdictAtMs = this.#clock.monotonicMs();
  }

  async cancel(): Promise<void> {
    this.#clock.schedule(this.#plan.latencyMs, () => {
      if (this.#link === "up" && !this.#seatClosed) this.#handlers?.onCancel();
    });
    if (this.#random.chance(0.1)) await new Promise<never>(() => {});
  }

  async close(): Promise<void> {
    this.record.closed++;
    this.#end();
    if (this.#random.chance(0.1)) await sleep(this.#clock, 4_000);
  }

  /** @param survives the room goes on without the mesh, and keeps the reply */
  meshDied(survives: boolean): void {
    if (!survives) this.#end();
  }

  refuse(): void {
    this.#tellMesh({ type: "refused" });
  }

  /** `undefined`: the room is over. */
  takeSeat(capabilities: readonly Capability[] | undefined, handlers: SeatHandlers): DeviceSeat | undefined {
    if (this.#isOver || this.#link === "gone") return undefined;
    this.#handlers = handlers;
    this.#link = "up";
    this.#announceJoin({ type: "joined", capabilities });
    return this.#seat();
  }

  #announceJoin(joined: RoomEvent): void {
    const mixedUp = this.#plan.room?.type === "presence_mixed_up";
    if (this.#plan.reply === "before_the_task") {
      const envelope = { type: "reply", id: this.#askId, outcome: "done", data: "early" } as const;
      this.#tellMesh({ type: "frame", envelope });
    }
    if (mixedUp) {
      this.#tellMesh({ type: "back" });
      this.#tellMesh({ type: "away", graceMs: GRACE_MS });
    }
    if (this.#plan.join !== "join_not_reported") this.#tellMesh(joined);
    if (this.#plan.join === "joins_twice" || mixedUp) this.#tellMesh(joined);
    if (this.#plan.join === "away_before_task") {
      this.#linkDown(this.#random.between(10, GRACE_MS * 1.5));
    }
  }

  #seat(): DeviceSeat {
    const isClosed = () => this.#seatClosed;
    return {
      get isClosed() {
        return isClosed();
      },
      send: (envelope) => this.#fromDevice(envelope),
      leave: () => {
        if (this.#link === "gone" || this.#isOver) return;
        this.#link = "gone";
        this.#seatClosed = true;
        this.#clock.schedule(this.#plan.latencyMs, () => this.#tellGone("left"));
      },
      drop: () => {
        this.#linkDown();
        this.#forgotten = true;
        this.#unsent = [];
      },
      resume: () => {
        if (this.#isOver || this.#link === "gone" || this.#seatClosed) return false;
        this.#linkUp();
        return true;
      },
    };
  }

  /** Sends the task on its way. */
  #dispatch(task: TaskEnvelope): void {
    const { send, latencyMs } = this.#plan;
    this.#whereabouts = "on_its_way";
    switch (send) {
      case "lost":
        this.#whereabouts = "lost";
        return;
      case "late":
        this.#deliverAfter(this.#random.between(5_000, 50_000), task);
        return;
      case "very_late":
        this.#deliverAfter(this.#random.between(60_000, 200_000), task);
        return;
      case "twice":
        this.#deliverAfter(latencyMs, task);
        if (this.#profile?.repeatsTask ?? true) this.#deliverAfter(this.#random.between(latencyMs, 10_000), task);
        return;
      default:
        this.#deliverAfter(latencyMs, task);
    }
  }

  #deliverAfter(ms: number, task: TaskEnvelope): void {
    this.#clock.schedule(ms, () => this.#deliver(task));
  }

  /** A message that is out comes through even when the mesh has closed the room, as with any broker. */
  #deliver(task: TaskEnvelope): void {
    if (this.#seatClosed || this.#whereabouts === "dropped") return;
    if (this.#link === "down" && !this.#isOver) {
      const isKept = this.#profile?.holdsTask ?? true;
      if (this.#whereabouts === "on_its_way") this.#whereabouts = isKept ? "held" : "lost";
      return;
    }
    if (this.#link !== "up") return;
    this.#whereabouts = "arrived";
    this.#handlers?.onTask(task);
  }

  #fromDevice(envelope: DeviceEnvelope): void {
    if (this.#seatClosed || this.#isOver || this.#link === "gone") return;
    if (this.#link === "down") {
      this.#unsent.push(envelope);
      return;
    }
    if (envelope.type === "reply") this.#replyFromDevice(envelope);
    else this.#frame(envelope);
  }

  /** What is on its way when the link goes down has not arrived, and is sent again when the link is back. */
  #frame(envelope: DeviceEnvelope, moreMs = 0): void {
    this.#clock.schedule(this.#plan.latencyMs + moreMs, () => {
      if (this.#link === "up") {
        if (envelope.type !== "refused") this.#heardOfTask = true;
        this.events.push({ type: "frame", envelope });
      } else if (this.#link === "down" && !this.#forgotten) this.#unsent.push(envelope);
    });
  }

  #replyFromDevice(reply: ReplyEnvelope): void {
    const frame = (envelope: DeviceEnvelope, moreMs = 0): void => this.#frame(envelope, moreMs);
    if (this.#whereabouts === "arrived") this.keptReply = reply;
    switch (this.#plan.reply) {
      case "lost":
      case "never":
        this.keptReply = undefined;
        break;
      case "late":
        frame(reply, this.#random.between(5_000, 90_000));
        break;
      case "twice":
        frame(reply);
        frame(reply);
        break;
      case "contradicted":
        frame(reply);
        frame({ type: "reply", id: reply.id, outcome: reply.outcome === "done" ? "declined" : "done" });
        break;
      case "too_large":
        this.keptReply = undefined;
        this.#tellMesh({ type: "dropped", why: "planned: over the size limit", tooLarge: true });
        break;
      case "too_deep":
        frame({ ...reply, data: JSON.parse(`${"[".repeat(200)}${"]".repeat(200)}`) });
        break;
      case "other_ask":
        frame({ ...reply, id: "ask_of_somebody_else", outcome: "done" });
        frame(reply, 50);
        break;
      case "from_somebody_else":
        this.#tellMesh({ type: "dropped", why: "planned: not from this room's device" });
        frame(reply, 50);
        break;
      default:
        frame(reply);
    }
  }

  #linkDown(backAfterMs?: number): void {
    if (this.#link !== "up" || this.#isOver) return;
    this.#link = "down";
    const down = ++this.#downs;
    const { graceMs, seenWithinMs } = this.#profile ?? { graceMs: GRACE_MS, seenWithinMs: undefined };
    const seenAfterMs = seenWithinMs === undefined ? 0 : this.#random.between(0, seenWithinMs);
    const isStillDown = (): boolean => this.#link === "down" && this.#downs === down && !this.#isOver;
    const tell = (): void => {
      if (!isStillDown()) return;
      this.#downIsTold = true;
      this.#tellMesh({ type: "away", graceMs });
    };
    if (seenAfterMs === 0) tell();
    else this.#clock.schedule(seenAfterMs, tell);
    const fault = this.#plan.room;
    const returns = fault?.type === "link_down" && fault.back ? this.#random.between(100, GRACE_MS - 500) : undefined;
    const backMs = backAfterMs ?? returns;
    if (backMs !== undefined && backMs < GRACE_MS) this.#clock.schedule(backMs, () => this.#linkUp());
    this.#clock.schedule(seenAfterMs + graceMs, () => {
      if (!isStillDown()) return;
      this.#link = "gone";
      this.#seatClosed = true;
      this.#tellGone("lost");
    });
  }

  #linkUp(): void {
    if (this.#link !== "down" || this.#isOver) return;
    this.#link = "up";
    this.#forgotten = false;
    if (this.#downIsTold) this.#tellMesh({ type: "back" });
    this.#downIsTold = false;
    const repeats = this.#profile?.repeatsTask ?? true;
    if (this.#task && this.#whereabouts === "held") this.#deliver(this.#task);
    // A room that did not hear that the task arrived may hand it over again.
    else if (this.#task && this.#whereabouts === "arrived" && repeats && this.#random.chance(0.5)) {
      this.#deliver(this.#task);
    }
    for (const envelope of this.#unsent.splice(0)) this.#fromDevice(envelope);
  }

  #tellGone(reason: "left" | "lost"): void {
    const delivered = this.#knowledge();
    if (delivered === "no" && this.record.verdict === "handed") this.record.saidNeverDelivered = true;
    this.#tellMesh({ type: "left", reason, delivered }, 0);
  }

  #closeByItself(): void {
    if (this.#isOver) return;
    const delivered = this.#knowledge();
    if (delivered === "no" && this.record.verdict === "handed") this.record.saidNeverDelivered = true;
    const kind = this.#random.pick(["unavailable", "bad_credential", "plan_limit", "mismatch"] as const);
    this.events.push({ type: "closed", error: new RoomError(kind, "planned: the room closed"), delivered });
    this.#end();
  }

  /** Whether the task reached the device, as this room can tell; `no` makes sure that it never will. */
  #knowledge(): Delivered {
    switch (this.#whereabouts) {
      case "not_sent":
        this.#whereabouts = "dropped";
        return "no";
      case "held":
        if (this.#profile?.takesTaskBack === false) {
          this.#comesAllTheSame();
          return "maybe";
        }
        this.#whereabouts = "dropped";
        return "no";
      case "arrived":
        if (this.#profile?.provenBy === "word") return this.#heardOfTask ? "yes" : "maybe";
        return this.#random.chance(0.5) ? "yes" : "maybe";
      default:
        return "maybe";
    }
  }

  /** The provider keeps the task for a device that comes back after the mesh gave it up. */
  #comesAllTheSame(): void {
    const task = this.#task;
    if (!task || this.#random.chance(0.5)) return;
    this.#clock.schedule(this.#random.between(1_000, 60_000), () => {
      this.#whereabouts = "arrived";
      this.#handlers?.onTask(task);
    });
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.events.end();
    this.#clock.schedule(this.#plan.latencyMs, () => {
      this.#seatClosed = true;
    });
  }

  #tellMesh(event: RoomEvent, afterMs = this.#plan.latencyMs): void {
    this.#clock.schedule(afterMs, () => this.events.push(event));
  }
}
