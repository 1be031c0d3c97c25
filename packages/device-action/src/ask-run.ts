/**
 * Drives one ask: does what the machine says and tells it what came of it. Everything that waits has an end: the join
 * and reply deadlines, the grace of a device that is away, the deadline of the run, the end of the mesh.
 */
import { RingError } from "@leafmesh/notifiers/contract";
import type { AskResult, Capability, UploadTarget } from "@leafmesh/protocol";
import { type Room, RoomError } from "@leafmesh/rooms/contract";
import { type AskPlan, afterTask } from "./ask-plan.ts";
import { AskRecord, type Stored } from "./ask-record.ts";
import type { AskServices } from "./ask-services.ts";
import { type AskEffect, type AskEvent, type AskState, type Ending, INITIAL_STATE, type Step } from "./ask-state.ts";
import {
  acceptedStory,
  createdStory,
  noteStory,
  reachingStory,
  ringTroubleStory,
  settledStory,
  taskTroubleStory,
} from "./ask-story.ts";
import { AskTimers, type Deadline, type DeadlineWatcher } from "./ask-timers.ts";
import { GivenUp } from "./bounded.ts";
import { callStateOf } from "./call-states.ts";
import { closeRoom } from "./close-room.ts";
import type { NotifierHandle, RoomHandle } from "./connections.ts";
import { openRoom } from "./open-room.ts";
import { resultOf } from "./outcomes.ts";
import { checkDeclared } from "./request.ts";
import { ringDevice } from "./ring-device.ts";
import { toAskEvent } from "./room-events.ts";
import { StepLoop, type Steps } from "./step-loop.ts";
import { buildTask, findOversize } from "./task.ts";
import { DEVICE_ACTION } from "./tool-definition.ts";

export interface AskEnd {
  readonly result: AskResult;
  /** Left out when nothing was stored of the ask. */
  readonly callId: string | undefined;
}

export interface AskHolder {
  askEnded(): void;
}

/** What an ask holds once its room is open. */
interface Reach {
  readonly notifier: NotifierHandle;
  readonly rooms: RoomHandle;
  readonly room: Room;
  readonly upload: UploadTarget | undefined;
}

/** Of a run that is about to end, this much is kept for an answer: a device that joins later gets no task. */
const LEAST_REPLY_MS = 5_000;
/** Rooms report the loss of a device themselves, and know more of it than a timer does. */
const GRACE_MARGIN_MS = 1_000;
/** How long a room outlives its ask at most. */
const ROOM_MARGIN_MS = 45_000;
const MAX_PROGRESS_EVENTS = 100;
/** One for all: an error of its own for each ask costs more than a commit's statements. */
const OVER = new GivenUp("aborted");

export class AskRun implements Steps, DeadlineWatcher {
  plan: AskPlan;

  readonly #services: AskServices;
  readonly #record: AskRecord;
  readonly #timers: AskTimers;
  readonly #startedAtMs: number;
  readonly #joinByMs: number;
  /** The outcome once it is stored. */
  #end: AskEnd | undefined;
  #ended: PromiseWithResolvers<AskEnd> | undefined;
  #holder: AskHolder | undefined;
  /** Aborted when the ask has its outcome: what is under way then does not matter any more. */
  #over: AbortController | undefined = new AbortController();
  readonly #loop: StepLoop;
  #reach: Reach | undefined;
  #ringing: AbortController | undefined;
  #receipt: string | undefined;
  #replyByMs = 0;
  #progressEvents = 0;
  #closing: Promise<void> | undefined;

  constructor(plan: AskPlan, services: AskServices) {
    this.plan = plan;
    this.#services = services;
    this.#record = new AskRecord(services);
    this.#loop = new StepLoop(INITIAL_STATE, this);
    this.#timers = new AskTimers(services.clock, this);
    this.#startedAtMs = services.clock.monotonicMs();
    const leastReplyMs = Math.min(LEAST_REPLY_MS, plan.replyTimeoutMs);
    this.#joinByMs = Math.min(this.#startedAtMs + plan.joinTimeoutMs, plan.endsByMs - leastReplyMs);
  }

  /** The outcome, once it is stored. Never rejects. */
  get ended(): Promise<AskEnd> {
    this.#ended ??= Promise.withResolvers();
    if (this.#end) this.#ended.resolve(this.#end);
    return this.#ended.promise;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  /** Tells `holder` when the outcome is stored, before those who wait for {@link ended} go on. */
  heldBy(holder: AskHolder): void {
    this.#holder = holder;
  }

  start(): void {
    // Before it is stored: a store with several connections does not finish commits in the order of the calls.
    this.#services.queue.keepPlace(this.#queueKey, this);
    this.#loop.tell({ type: this.#leftMs(this.#joinByMs) > 0 ? "validated" : "cancelled" });
  }

  /** Somebody asked for an end, by the ask's id. */
  cancelOnRequest(): void {
    this.#record.note({ events: [{ type: "ask.cancel_requested", payload: { ask_id: this.plan.askId } }] });
    this.cancel();
  }

  /** The run was cancelled, or its time is over. */
  cancel(): void {
    this.#loop.tell({ type: "cancelled" });
  }

  /** The mesh stops. */
  stop(): void {
    this.#loop.tell({ type: "mesh_stopped" });
  }

  /** No earlier ask to this device is open any more. */
  turnCame(): void {
    this.#loop.tell({ type: "turn_came" });
  }

  /** Resolves when the outcome is stored and the room is closed. Never rejects. */
  async over(): Promise<void> {
    await this.ended;
    await this.#closing;
    await this.#record.idle();
  }

  step(state: AskState, event: AskEvent): Step {
    return this.#services.step(state, event);
  }

  onBug(error: unknown): void {
    this.#services.logger.error("an ask failed in a way it should not", { ask: this.plan.askId, error });
  }

  deadlinePassed(which: Deadline): void {
    this.#loop.tell({ type: "deadline", which });
  }

  perform(effect: AskEffect): void {
    switch (effect.type) {
      case "create":
        this.#create();
        break;
      case "take_turn":
        this.#services.queue.enter(this.#queueKey, this);
        break;
      case "open_room":
        this.#openRoom();
        break;
      case "store_reaching":
        this.#storeReaching(this.#reached());
        break;
      case "ring":
        this.#ring(this.#reached());
        break;
      case "stop_ringing":
        this.#ringing?.abort(OVER);
        break;
      case "check":
        this.#check(effect.capabilities);
        break;
      case "store_offered":
        this.#storeOffered(this.#reached());
        break;
      case "send_task":
        this.#sendTask(this.#reached());
        break;
      case "store_accepted":
        this.#storeAccepted();
        break;
      case "close_room":
        this.#closeRoom(this.#reached(), effect.cancelTask);
        break;
      case "settle":
        this.#settle(effect.ending);
        break;
      case "adopt":
        this.#finish(effect.result, Promise.resolve(effect.result));
        break;
      case "note_away":
        this.#timers.arm("grace", effect.graceMs + GRACE_MARGIN_MS);
        this.#note(effect);
        break;
      case "note_back":
        this.#timers.disarmGrace();
        this.#note(effect);
        break;
      case "note_progress":
        if (++this.#progressEvents <= MAX_PROGRESS_EVENTS) this.#note(effect);
        break;
      case "note_rung":
      case "note_joined":
      case "note_sent":
      case "note_late_reply":
        this.#note(effect);
        break;
      default:
        effect satisfies never;
    }
  }

  #create(): void {
    const { askId: id, deviceId: device, invocation } = this.plan;
    const { sessionId, runId, agent, turn, position, providerCallId } = invocation;
    this.#timers.arm("join", this.#leftMs(this.#joinByMs));
    const joinBy = this.#wallSeconds(this.#joinByMs);
    const call = { id, sessionId, runId, agent, turn, position, providerCallId, device, tool: DEVICE_ACTION };
    const created = this.#record.create(
      { ...call, arguments: invocation.arguments, expiresAt: Math.ceil(joinBy * 1000) },
      createdStory(this.plan, joinBy),
    );
    this.#goOn(created, { type: "created" });
  }

  #openRoom(): void {
    const { askId, deviceId, pushToken, approval, connections } = this.plan;
    const notifier = connections.notifier(this.plan.connection);
    const rooms = connections.room(this.plan.room);
    if (!notifier || !rooms || !notifier.accepts(pushToken)) {
      this.#loop.tell({ type: notifier ? (rooms ? "bad_token" : "no_room") : "no_connection" });
      return;
    }
    const { clock, logger } = this.#services;
    const leftMs = () => Math.max(this.#leftMs(this.#joinByMs), 0);
    const opening = openRoom({
      provider: rooms.rooms,
      request: () => {
        const lifetimeMs = leftMs() + this.plan.replyTimeoutMs + ROOM_MARGIN_MS;
        return { askId, deviceId, approval, joinWithinMs: leftMs(), lifetimeMs };
      },
      leftMs,
      signal: this.#giveUp(),
      clock,
      logger,
    });
    this.#loop.expect(
      opening,
      (room) => this.#enter(room, notifier, rooms),
      (error) => {
        if (!(error instanceof RoomError)) throw error;
        this.#record.note(taskTroubleStory(rooms.provider, error));
        this.#loop.tell({ type: "room_failed", kind: error.kind });
      },
    );
  }

  #enter(room: Room, notifier: NotifierHandle, rooms: RoomHandle): void {
    const { askId, invocation } = this.plan;
    const { sessionId } = invocation;
    const upload = this.#services.uploads?.open({ callId: askId, sessionId, notifier: notifier.provider });
    this.#reach = { room, notifier, rooms, upload };
    this.#loop.expect(this.#read(room), () => {});
    this.#loop.tell({ type: "room_opened", refusal: findOversize(this.plan, upload, room.maxTaskBytes) });
  }

  async #read(room: Room): Promise<void> {
    for await (const event of room.events) {
      if (event.type === "dropped") {
        this.#services.logger.warn("a room dropped a message", { ask: this.plan.askId, why: event.why });
      }
      const meaning = toAskEvent(event, this.plan.askId);
      if (meaning) this.#loop.tell(meaning);
    }
    this.#loop.tell({ type: "room_closed", kind: "unavailable", delivered: "maybe" });
  }

  #storeReaching({ rooms, room }: Reach): void {
    const reaching = this.#record.advance(
      { state: "reaching", room: { connection: rooms.name, label: room.label } },
      reachingStory(this.plan, rooms.provider, room.label),
    );
    this.#goOn(reaching, { type: "reaching_stored" });
  }

  #ring({ notifier, room }: Reach): void {
    const { askId, deviceId, pushToken, approval, meshName } = this.plan;
    const { clock, logger, signer, random, notices } = this.#services;
    this.#ringing = new AbortController();
    const iat = Math.floor(clock.nowMs() / 1000);
    const exp = Math.ceil(this.#wallSeconds(this.#joinByMs));
    const noteTrouble = (error: RingError) => this.#record.note(ringTroubleStory(this.plan, error, notices));
    const rung = ringDevice({
      notifier: notifier.notifier,
      signer,
      pushToken,
      ring: { v: 1, ask: askId, device: deviceId, approval, mesh: meshName, iat, exp, join: room.join },
      leftMs: () => Math.max(this.#leftMs(this.#joinByMs), 0),
      random,
      onRetry: noteTrouble,
      signal: this.#ringing.signal,
      clock,
      logger,
    });
    this.#loop.expect(
      rung,
      (receipt) => {
        this.#ringing = undefined;
        this.#receipt = receipt.id;
        this.#loop.tell({ type: "rung" });
      },
      (error) => {
        if (!(error instanceof RingError)) throw error;
        noteTrouble(error);
        this.#loop.tell({ type: "ring_failed", kind: error.kind });
      },
    );
  }

  #check(capabilities: readonly Capability[]): void {
    this.#loop.expect(checkDeclared(capabilities, this.plan.action, this.plan.inputs), (refusal) => {
      this.#loop.tell(refusal ? { type: "refused", refusal } : { type: "checked" });
    });
  }

  /** Stored before the task leaves, so that a restart never takes a task for one that was not sent. */
  #storeOffered({ rooms }: Reach): void {
    const now = this.#services.clock.monotonicMs();
    this.#replyByMs = Math.min(now + this.plan.replyTimeoutMs, this.plan.endsByMs);
    this.#timers.arm("reply", this.#replyByMs - now);
    const offered = this.#record.advance(
      { state: "offered", reached: "maybe", expiresAt: Math.ceil(this.#wallSeconds(this.#replyByMs) * 1000) },
      { offers: [{ channel: "task", via: rooms.provider }] },
    );
    this.#goOn(offered, { type: "offer_stored" });
  }

  #sendTask({ room, rooms, upload }: Reach): void {
    const budgetMs = Math.max(Math.floor(this.#leftMs(this.#replyByMs)), 0);
    const task = buildTask(this.plan, upload, budgetMs, this.#wallSeconds(this.#replyByMs));
    this.#loop.expect(
      room.send(task, this.#giveUp()),
      (sent) => {
        this.#forgetTask();
        if (sent.status === "handed") {
          this.#loop.tell({ type: "sent", status: "handed" });
        } else {
          this.#record.note(taskTroubleStory(rooms.provider, sent.error));
          this.#loop.tell({ type: "sent", status: "not_handed", kind: sent.error.kind });
        }
      },
      (error) => {
        this.#services.logger.error("a room did not say whether a task was sent", { ask: this.plan.askId, error });
        this.#loop.tell({ type: "sent", status: "handed" });
      },
    );
  }

  /** From here on the ask only waits, perhaps for long. */
  #forgetTask(): void {
    this.plan = afterTask(this.plan);
    this.#over = undefined;
    if (this.#reach) this.#reach = { ...this.#reach, upload: undefined };
  }

  #giveUp(): AbortSignal {
    return this.#over?.signal ?? AbortSignal.abort(OVER);
  }

  #storeAccepted(): void {
    const claimed = this.#record.fact({ state: "claimed", reached: "yes" }, acceptedStory(this.plan));
    this.#loop.expect(claimed, (stored) => {
      if (stored.status === "settled") this.#loop.tell({ type: "overtaken", result: stored.result });
    });
  }

  #settle(ending: Ending): void {
    const result = resultOf(ending, this.plan.deviceId);
    const durationMs = this.#services.clock.monotonicMs() - this.#startedAtMs;
    const settlement = { state: callStateOf(ending), reached: ending.reached, result };
    this.#finish(result, this.#record.settle(settlement, settledStory(this.plan.askId, result, durationMs)));
  }

  /** @param standing the outcome that stands once it is stored; `result` when even that fails */
  #finish(result: AskResult, standing: Promise<AskResult>): void {
    this.#timers.disarmAll();
    this.#ringing?.abort(OVER);
    this.#over?.abort(OVER);
    const end = (outcome: AskResult): void => {
      this.#end = { result: outcome, callId: this.#record.callId };
      this.#ended?.resolve(this.#end);
      this.#holder?.askEnded();
    };
    this.#loop.expect(standing, end, (error) => {
      end(result);
      throw error;
    });
    this.#services.queue.leave(this.#queueKey, this);
  }

  /** The room goes once the outcome is stored: until then it may hold an answer that a restart could fetch. */
  #closeRoom({ room }: Reach, cancelTask: boolean): void {
    this.#closing = closeRoom(room, {
      cancelTask: cancelTask ? this.plan.askId : undefined,
      whenStored: () => this.#record.idle(),
      clock: this.#services.clock,
      logger: this.#services.logger,
    });
  }

  #note(note: Parameters<typeof noteStory>[0]): void {
    const facts = { receipt: this.#receipt, replyBy: this.#wallSeconds(this.#replyByMs) };
    this.#record.note(noteStory(note, this.plan, facts));
  }

  /** The machine goes on once `storing` is done. */
  #goOn(storing: Promise<Stored>, next: AskEvent): void {
    this.#loop.expect(storing, (stored) => {
      switch (stored.status) {
        case "stored":
          this.#loop.tell(next);
          break;
        case "failed":
          this.#loop.tell({ type: "store_failed" });
          break;
        case "gone":
          this.#loop.tell({ type: "cancelled" });
          break;
        case "settled":
          this.#loop.tell({ type: "overtaken", result: stored.result });
          break;
        default:
          stored satisfies never;
      }
    });
  }

  #reached(): Reach {
    if (!this.#reach) throw new Error("the ask has no room yet");
    return this.#reach;
  }

  get #queueKey(): string {
    return `${this.plan.invocation.sessionId} ${this.plan.deviceId}`;
  }

  #leftMs(untilMs: number): number {
    return untilMs - this.#services.clock.monotonicMs();
  }

  /** A moment of the monotonic clock as peers and people read it: seconds since the epoch. */
  #wallSeconds(atMs: number): number {
    return (this.#services.clock.nowMs() + this.#leftMs(atMs)) / 1000;
  }
}
