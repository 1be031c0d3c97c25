import {
  type Agent,
  type Backend,
  type DeviceBlock,
  type Limits,
  type Mesh,
  StorageError,
  type Tool,
  type ToolResult,
} from "@leafmesh/core";
import { getAsk } from "@leafmesh/core/calls";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { RingError } from "@leafmesh/notifiers/contract";
import {
  type AskResult,
  askViewSchema,
  type Capability,
  type ReplyEnvelope,
  type RingSigner,
  Secret,
  silentLogger,
} from "@leafmesh/protocol";
import { RoomError } from "@leafmesh/rooms/contract";
import { createFakeClock } from "@leafmesh/testkit";
import { ScriptedNotifier, type ScriptedRoom, ScriptedRooms } from "@leafmesh/testkit/ask";
import { afterEach, describe, expect, it } from "vitest";
import type { ConnectionPool } from "./connections.ts";
import { createDeviceAction } from "./tool.ts";
import type { AskUploads } from "./uploads.ts";

const TOKEN = "push-token-canary-7f3a";

/** Signatures take another thread, and have tests of their own. */
const signer: RingSigner = {
  key: { kid: "k", kty: "OKP", crv: "Ed25519", x: "" },
  sign: async (ring) => ({ ...ring, kid: "k", sig: "s" }),
};

const opened: Backend[] = [];
afterEach(async () => {
  for (const backend of opened.splice(0)) await backend.close();
});

interface WorldOptions {
  readonly block?: Partial<DeviceBlock>;
  readonly limits?: Partial<Limits>;
  readonly capabilities?: readonly Capability[];
  readonly uploads?: AskUploads;
}

/** A mesh with one conversation, in which the test plays the push service, the rooms and the devices. */
async function createWorld({ block, limits, capabilities, uploads }: WorldOptions = {}) {
  const clock = createFakeClock();
  const backend = createEmbeddedBackend({ path: ":memory:", durable: false, clock, logger: silentLogger });
  opened.push(backend);
  await backend.migrate();
  const at = clock.nowMs();
  await backend.commit([
    {
      kind: "session.create",
      session: { id: "s1", meshName: "m", entryPoint: "chat", createdAt: at, lastActiveAt: at, context: {} },
    },
    {
      kind: "run.create",
      run: {
        id: "r1",
        sessionId: "s1",
        agent: "helper",
        status: "running",
        input: "",
        createdAt: at,
        deadlineAt: at + 3_600_000,
        version: 1,
      },
    },
  ]);
  const agent = {
    name: "helper",
    device: { connection: "phones", approval: "ask", joinTimeoutMs: 60_000, replyTimeoutMs: 60_000, ...block },
  } as Agent;
  const mesh = {
    name: "phone-support",
    limits: { maxOpenAsksPerSession: 32, maxAsksPerRun: 100, toolResultMaxChars: 30_000, ...limits },
  } as Mesh;

  const notifier = new ScriptedNotifier();
  const rooms = new ScriptedRooms();
  let commitFault: ((kinds: readonly string[]) => boolean) | undefined;
  let nextCommit: Promise<void> | undefined;
  let nextList: Promise<void> | undefined;
  const held = { now: 0, ever: 0 };
  const pool: ConnectionPool = {
    notifier: (name) =>
      name === "phones"
        ? { name, provider: "push", notifier, accepts: (token) => token.reveal().startsWith("push-") }
        : undefined,
    room: (name) => (name === "gone" ? undefined : { name: name ?? null, provider: "scripted", rooms }),
    checkAll: async () => [],
    hold() {
      held.now++;
      held.ever++;
      return () => void held.now--;
    },
    retire() {},
    async close() {},
  };
  let ids = 0;
  const devices = [
    { id: "phone-7", pushToken: new Secret(TOKEN), ...(capabilities ? { capabilities } : {}) },
    { id: "tablet-2", pushToken: new Secret(`${TOKEN}-2`) },
  ];
  const action = createDeviceAction({
    backend: {
      ...backend,
      queue: backend.queue,
      async commit(writes) {
        if (
          commitFault?.(
            writes.map((write) => (write.kind === "call.update" ? `call.update ${write.patch.state}` : write.kind)),
          )
        ) {
          throw new StorageError("full", "the disk is full");
        }
        const waits = nextCommit;
        nextCommit = undefined;
        await waits;
        return backend.commit(writes);
      },
    },
    devices: {
      async list() {
        const waits = nextList;
        nextList = undefined;
        await waits;
        return devices;
      },
    },
    connectionsOf: () => pool,
    signer,
    uploads,
    clock,
    logger: silentLogger,
    newId: (prefix) => `${prefix}_${++ids}`,
    random: () => 0,
  });

  const toolOf = async (): Promise<Tool> => {
    const [tool] = await action.provider.toolsFor(agent, { sessionId: "s1", runId: "r1", mesh });
    if (!tool) throw new Error("the agent got no tool");
    return tool;
  };
  let position = 0;
  const tool = await toolOf();
  const until = async (isSo: () => boolean): Promise<void> => {
    for (let turn = 0; !isSo(); turn++) {
      if (turn > 2_000) throw new Error("it does not come to that");
      await clock.advance(0);
    }
  };
  return {
    clock,
    backend,
    notifier,
    rooms,
    action,
    tool,
    toolOf,
    held,
    until,
    /** The next of these takes until then, and those after it do not. */
    slow(what: "commit" | "list", until: Promise<void>): void {
      if (what === "commit") nextCommit = until;
      else nextList = until;
    },
    failCommits(isHit: ((kinds: readonly string[]) => boolean) | undefined): void {
      commitFault = isHit;
    },
    ask(
      given: Record<string, unknown> = {},
      scope: { signal?: AbortSignal; runMs?: number } = {},
    ): Promise<ToolResult> {
      return tool.execute({
        invocation: {
          sessionId: "s1",
          runId: "r1",
          agent: "helper",
          turn: 1,
          position: position++,
          providerCallId: `call_${position}`,
          arguments: { device: "phone-7", action: "read_battery", ...given },
        },
        signal: scope.signal ?? new AbortController().signal,
        deadlineAtMs: clock.nowMs() + (scope.runMs ?? 3_600_000),
      });
    },
    /** The n-th room, once it is open and its device was rung. */
    async rung(number = 0): Promise<ScriptedRoom> {
      await until(() => notifier.rings.length > number && rooms.opened.length > number);
      return at0(rooms.opened, number);
    },
    /** The n-th room, once its device has the task. */
    async sent(number = 0): Promise<ScriptedRoom> {
      await until(() => notifier.rings.length > number && rooms.opened.length > number);
      const room = at0(rooms.opened, number);
      room.emit({ type: "joined" });
      await until(() => room.tasks.length > 0);
      return room;
    },
    events: async () => (await backend.events("s1")).map(({ type }) => type),
    async payloads(type: string): Promise<readonly unknown[]> {
      return (await backend.events("s1")).filter((event) => event.type === type).map(({ payload }) => payload);
    },
  };
}

type World = Awaited<ReturnType<typeof createWorld>>;

function at0<Item>(items: readonly Item[], index: number): Item {
  const item = items[index];
  if (item === undefined) throw new Error(`there is no item ${index}`);
  return item;
}

function reply(room: ScriptedRoom, more: Partial<ReplyEnvelope> = {}): ReplyEnvelope {
  return { type: "reply", id: room.request.askId, outcome: "done", ...more };
}

async function told(asking: Promise<ToolResult>): Promise<AskResult> {
  return JSON.parse((await asking).content);
}

/** Moves the clock until the asking has its answer. */
async function toldAfter(world: World, ms: number, asking: Promise<ToolResult>): Promise<AskResult> {
  const result = told(asking);
  await world.clock.advance(ms);
  return result;
}

describe("an ask from its call to its outcome", () => {
  it.each(["list", "commit"] as const)(
    "comes before a later one to its device although its %s takes longer",
    async (what) => {
      const world = await createWorld();
      if (what === "list") await world.toolOf();
      const slow = Promise.withResolvers<void>();
      world.slow(what, slow.promise);
      const asking = ["read_battery", "show_battery"].map((action) => told(world.ask({ action })));
      await world.clock.advance(1_000);
      expect(world.notifier.rings).toHaveLength(0);
      slow.resolve();
      const actions: unknown[] = [];
      for (const number of [0, 1]) {
        const room = await world.sent(number);
        actions.push(at0(room.tasks, 0).action);
        room.frame(reply(room));
      }
      expect(actions).toEqual(["read_battery", "show_battery"]);
      expect((await Promise.all(asking)).map(({ outcome }) => outcome)).toEqual(["done", "done"]);
    },
  );

  it("rings, hands over one task, and brings back what the device says", async () => {
    const world = await createWorld();
    const asking = world.ask({ inputs: { unit: "percent" }, reason: "the customer asks" });
    const room = await world.rung();
    const nowSeconds = world.clock.nowMs() / 1000;
    const { ring } = at0(world.notifier.rings, 0).request;
    expect(ring).toMatchObject({
      ask: "ask_1",
      device: "phone-7",
      approval: "ask",
      mesh: "phone-support",
      iat: nowSeconds,
      exp: nowSeconds + 60,
      join: { provider: "scripted", token: "for-one-room" },
    });
    expect(ring.sig).toBe("s");
    expect(at0(world.notifier.rings, 0).to).toBe(TOKEN);
    expect(room.request).toEqual({
      askId: "ask_1",
      deviceId: "phone-7",
      approval: "ask",
      joinWithinMs: 60_000,
      lifetimeMs: 165_000,
    });

    await world.clock.advance(4_000);
    await world.sent();
    expect(room.tasks).toEqual([
      {
        type: "task",
        id: "ask_1",
        action: "read_battery",
        inputs: { unit: "percent" },
        budget_ms: 60_000,
        expires_at: nowSeconds + 64,
      },
    ]);
    room.frame({ type: "accepted", id: "ask_1" });
    room.frame({ type: "progress", id: "ask_1", note: "reading", pct: 50 });
    await world.clock.advance(1_000);
    room.frame(reply(room, { data: { level: 80 } }));
    const result = await asking;

    expect(JSON.parse(result.content)).toMatchObject({
      outcome: "done",
      success: true,
      device: "phone-7",
      data: { level: 80 },
    });
    expect(result).toMatchObject({ success: true, callId: "ask_1" });
    await world.clock.advance(0);
    expect(room.timesClosed).toBe(1);
    expect(room.cancelled).toEqual([]);
    expect(await world.events()).toEqual([
      "ask.created",
      "ask.opened",
      "ask.ringing",
      "ask.rung",
      "ask.joined",
      "ask.sent",
      "ask.accepted",
      "ask.progress",
      "ask.settled",
    ]);
    expect(await world.payloads("ask.settled")).toMatchObject([{ ask_id: "ask_1", duration_ms: 5_000 }]);
    expect(await world.backend.call("ask_1")).toMatchObject({
      state: "answered",
      reached: "yes",
      outcome: "done",
      device: "phone-7",
      room: { connection: null, label: "room-ask_1" },
      arguments: { action: "read_battery", reason: "the customer asks" },
    });
    expect(await world.backend.offers("ask_1")).toMatchObject([
      { channel: "ring", via: "phones", receipt: "receipt-1" },
      { channel: "task", via: "scripted" },
    ]);
    expect(world.clock.pendingTimers).toBe(0);
    expect(world.action.openAsks()).toBe(0);
    expect(world.held).toEqual({ now: 0, ever: 1 });
    expect(askViewSchema.safeParse(await getAsk(world.backend, "ask_1")).success).toBe(true);
  });

  it.each([
    ["declined", {}, { outcome: "declined" }],
    ["sent_for_approval", {}, { outcome: "sent_for_approval" }],
    ["failed", { error: { code: "no_permission" } }, { outcome: "failed", reason: "device_error" }],
    ["failed", { error: { may_have_happened: true } }, { outcome: "failed", may_have_happened: true }],
  ] as const)("ends at once with the device's word: %s", async (outcome, more, expected) => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    room.frame(reply(room, { outcome, ...more }));
    expect(await told(asking)).toMatchObject({ ...expected, success: false, error: expect.any(String) });
    await world.clock.advance(0);
    expect(room.timesClosed).toBe(1);
  });

  it("takes the first of two answers, and keeps the second for people", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    room.frame(reply(room, { outcome: "declined" }));
    room.frame(reply(room, { data: "surprise" }));
    expect(await told(asking)).toMatchObject({ outcome: "declined" });
    await world.clock.advance(0);
    expect(await world.payloads("ask.late_reply")).toEqual([{ ask_id: "ask_1", device: "phone-7", outcome: "done" }]);
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "declined", outcome: "declined" });
  });

  it("stores no more progress than anybody wants to read", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    for (let pct = 0; pct < 500; pct++) room.frame({ type: "progress", id: "ask_1", pct: pct / 5 });
    room.frame(reply(room));
    expect(await told(asking)).toMatchObject({ outcome: "done" });
    await world.clock.advance(0);
    expect(await world.payloads("ask.progress")).toHaveLength(100);
  });

  it("never shows a push token to anything but the notifier", async () => {
    const world = await createWorld();
    world.notifier.onRing = () => {
      throw new RingError("dead_token", "the service does not know this device", { code: "UNREGISTERED" });
    };
    const asking = world.ask();
    await world.rung();
    const seen = [
      await asking,
      world.tool.definition,
      await world.backend.events("s1"),
      await world.backend.call("ask_1"),
      await world.backend.offers("ask_1"),
      world.rooms.opened.map(({ request, tasks }) => ({ request, tasks })),
    ];
    expect(JSON.stringify(seen)).not.toContain(TOKEN);
  });
});

describe("what is refused", () => {
  it("rings nobody, and is found among the asks", async () => {
    const world = await createWorld({ block: { deny: ["wipe*"] } });
    const nowhere = await world.ask({ device: "phone-8" });
    expect(JSON.parse(nowhere.content)).toEqual({
      outcome: "refused",
      success: false,
      reason: "no_such_device",
      error:
        'This conversation has no such device: name one of ["phone-7","tablet-2"]. Nothing was sent to the device.',
    });
    const denied = await world.ask({ action: "wipe_all" });
    expect(JSON.parse(denied.content)).toMatchObject({ reason: "action_denied", device: "phone-7" });
    const bad = await world.ask({ inputs: [] });
    expect(JSON.parse(bad.content)).toMatchObject({ reason: "bad_inputs" });
    expect(world.rooms.opened).toHaveLength(0);
    expect(await world.events()).toEqual([]);

    const records = [nowhere, denied, bad].flatMap((result) => result.records ?? []);
    expect(await world.backend.commit(records)).toMatchObject({ committed: true });
    expect(await world.events()).toEqual(Array.from({ length: 3 }, () => ["ask.created", "ask.settled"]).flat());
    const view = await getAsk(world.backend, "ask_1");
    expect(askViewSchema.parse(view)).toMatchObject({ state: "settled", result: { reason: "no_such_device" } });
    const waitId = (await world.backend.call("ask_1"))?.waitId ?? "";
    expect(await world.backend.wait(waitId)).toMatchObject({ state: "continued" });
  });

  it("is a task that its room cannot carry, found before the device is rung", async () => {
    const world = await createWorld();
    world.rooms.maxTaskBytes = 1_000;
    const result = await told(world.ask({ inputs: { text: "é".repeat(500) } }));
    expect(result).toMatchObject({
      outcome: "refused",
      reason: "task_too_large",
      error: expect.stringMatching(/1[0-9]{3} bytes.*at most 1000/),
    });
    expect(world.notifier.rings).toHaveLength(0);
    await world.clock.advance(0);
    expect(world.rooms.opened[0]?.timesClosed).toBe(1);
  });

  it("is an action that the device does not offer when it joins: no task is sent", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.rung();
    room.emit({ type: "joined", capabilities: [{ name: "take_photo" }] });
    expect(await told(asking)).toMatchObject({ outcome: "refused", reason: "unknown_action" });
    expect(room.tasks).toEqual([]);
    expect(await world.payloads("ask.joined")).toMatchObject([{ capabilities: ["take_photo"] }]);
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "undeliverable", reached: "no" });
  });

  it("is not an action that the joining device does offer, with inputs that fit", async () => {
    const world = await createWorld();
    const inputs = { type: "object", required: ["level"] };
    const asking = world.ask();
    const room = await world.rung();
    room.emit({ type: "joined", capabilities: [{ name: "read_battery", inputs }] });
    expect(await told(asking)).toMatchObject({ outcome: "refused", reason: "bad_inputs" });
    const again = world.ask({ inputs: { level: 3 } });
    const next = await world.rung(1);
    next.emit({ type: "joined", capabilities: [{ name: "read_battery", inputs }] });
    await world.until(() => next.tasks.length > 0);
    next.frame(reply(next));
    expect(await told(again)).toMatchObject({ outcome: "done" });
  });

  it("is one request too many: open ones of a conversation, and all of a run", async () => {
    const world = await createWorld({ limits: { maxOpenAsksPerSession: 2, maxAsksPerRun: 3 } });
    const first = world.ask();
    const second = world.ask({ device: "tablet-2" });
    expect(await told(world.ask())).toMatchObject({ outcome: "refused", reason: "too_many_asks" });
    for (const room of [await world.sent(0), await world.sent(1)]) room.frame(reply(room));
    await Promise.all([first, second]);
    const third = world.ask();
    const room = await world.sent(2);
    room.frame(reply(room));
    expect(await told(third)).toMatchObject({ outcome: "done" });
    expect(await told(world.ask())).toMatchObject({ outcome: "refused", reason: "too_many_asks" });
    expect(world.notifier.rings).toHaveLength(3);
  });

  it("counts the asks that the run made before a restart", async () => {
    const world = await createWorld({ limits: { maxAsksPerRun: 1 } });
    const first = world.ask();
    const room = await world.sent();
    room.frame(reply(room));
    await first;
    const resumed = await world.toolOf();
    const invocation = {
      sessionId: "s1",
      runId: "r1",
      agent: "helper",
      turn: 2,
      position: 0,
      providerCallId: "c",
      arguments: { device: "phone-7", action: "a" },
    };
    const scope = { invocation, signal: new AbortController().signal, deadlineAtMs: world.clock.nowMs() + 100_000 };
    expect(await told(resumed.execute(scope))).toMatchObject({ reason: "too_many_asks" });
  });

  it("is everything when the agent has no device block: there is no tool", async () => {
    const world = await createWorld();
    const mesh = {} as Mesh;
    expect(
      await world.action.provider.toolsFor({ name: "other" } as Agent, { sessionId: "s1", runId: "r1", mesh }),
    ).toEqual([]);
  });
});

describe("what cannot be reached", () => {
  it.each([
    [{ connection: "other" }, "no_connection"],
    [{ room: "gone" }, "no_room"],
  ])("has no connection: %o", async (block, reason) => {
    const world = await createWorld({ block });
    expect(await told(world.ask())).toMatchObject({ outcome: "unreachable", reason });
    expect(world.rooms.opened).toHaveLength(0);
  });

  it("is a room that is not opened", async () => {
    const world = await createWorld();
    world.rooms.onOpen = () => {
      throw new RoomError("plan_limit", "100 connections are in use", { code: "40115" });
    };
    expect(await told(world.ask())).toMatchObject({ outcome: "unreachable", reason: "room_plan_limit" });
    expect(await world.backend.offers("ask_1")).toMatchObject([
      { error: "plan_limit (40115): 100 connections are in use" },
    ]);
  });

  it("is a device whose token is dead: told to the app, rung once", async () => {
    const world = await createWorld();
    world.notifier.onRing = () => {
      throw new RingError("dead_token", "not registered", { code: "UNREGISTERED" });
    };
    const asking = world.ask();
    const room = await world.rung();
    expect(await told(asking)).toMatchObject({ outcome: "unreachable", reason: "dead_token" });
    expect(await world.payloads("device.token_dead")).toEqual([{ device: "phone-7", notifier: "phones" }]);
    expect(world.notifier.rings).toHaveLength(1);
    await world.clock.advance(0);
    expect(room.timesClosed).toBe(1);
  });

  it("is a task that certainly did not leave", async () => {
    const world = await createWorld();
    world.rooms.onRoom = (room) => {
      room.sent = { status: "not_handed", error: new RoomError("unavailable", "the broker is gone") };
    };
    const asking = world.ask();
    await world.sent();
    expect(await told(asking)).toMatchObject({ outcome: "unreachable", reason: "room_unavailable" });
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "undeliverable", reached: "no" });
    expect(await world.events()).not.toContain("ask.sent");
  });
});

describe("deadlines", () => {
  it("end the wait for a join; a device that joins a second later gets no task", async () => {
    const world = await createWorld({ block: { joinTimeoutMs: 30_000 } });
    const asking = world.ask();
    const room = await world.rung();
    await world.clock.advance(29_999);
    expect(world.action.openAsks()).toBe(1);
    const result = await toldAfter(world, 1_000, asking);
    expect(result).toMatchObject({ outcome: "not_joined", reason: "no_join", device: "phone-7" });
    expect(result).not.toHaveProperty("may_have_happened");
    room.emit({ type: "joined" });
    await world.clock.advance(1_000);
    expect(room.tasks).toEqual([]);
    expect(room.timesClosed).toBe(1);
    expect(world.clock.pendingTimers).toBe(0);
  });

  it("end the wait for an answer, tell the device, and say that it may have happened", async () => {
    const world = await createWorld({ block: { replyTimeoutMs: 20_000 } });
    const asking = world.ask();
    const room = await world.sent();
    room.frame({ type: "accepted", id: "ask_1" });
    expect(await toldAfter(world, 20_001, asking)).toMatchObject({
      outcome: "failed",
      reason: "no_answer",
      may_have_happened: true,
    });
    await world.clock.advance(0);
    expect(room.cancelled).toEqual(["ask_1"]);
    expect(room.timesClosed).toBe(1);
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "expired", reached: "yes" });
  });

  it("look at what the device has sent already before they count", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    const deadline = world.clock.schedule(60_000, () => room.frame(reply(room)));
    expect(await toldAfter(world, 60_000, asking)).toMatchObject({ outcome: "done" });
    deadline.cancel();
  });

  it("are not moved by a wall clock that is set", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.rung();
    world.clock.setWallClock(world.clock.nowMs() + 86_400_000);
    await world.clock.advance(59_000);
    expect(world.action.openAsks()).toBe(1);
    room.emit({ type: "joined" });
    await world.until(() => room.tasks.length > 0);
    world.clock.setWallClock(world.clock.nowMs() - 172_800_000);
    expect(await toldAfter(world, 60_001, asking)).toMatchObject({ reason: "no_answer" });
  });

  it("come before the run's own, so that the outcome is stored", async () => {
    const world = await createWorld();
    const asking = world.ask({}, { runMs: 40_000 });
    const room = await world.rung();
    expect(at0(world.notifier.rings, 0).request.ttlMs).toBe(34_000);
    await world.clock.advance(33_000);
    room.emit({ type: "joined" });
    await world.until(() => room.tasks.length > 0);
    expect(room.tasks[0]?.budget_ms).toBe(6_000);
    expect(await toldAfter(world, 6_001, asking)).toMatchObject({ outcome: "failed", reason: "no_answer" });
    expect(world.clock.monotonicMs()).toBeLessThan(40_000);
  });

  it("ring nobody when the run is almost over", async () => {
    const world = await createWorld();
    expect(await told(world.ask({}, { runMs: 3_000 }))).toMatchObject({ outcome: "not_joined", reason: "cancelled" });
    expect(world.rooms.opened).toHaveLength(0);
    expect(await world.events()).toEqual([]);
  });

  it("give a device that is away its grace, and no more", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    room.emit({ type: "away", graceMs: 15_000 });
    await world.clock.advance(15_500);
    expect(world.action.openAsks()).toBe(1);
    expect(await toldAfter(world, 501, asking)).toMatchObject({ reason: "connection_lost", may_have_happened: true });
  });

  it("take a room that does not say what became of a task for one that sent it", async () => {
    const world = await createWorld();
    world.rooms.onRoom = (room) => {
      room.sent = new Promise<never>(() => {});
    };
    const asking = world.ask();
    await world.sent();
    expect(await toldAfter(world, 60_001, asking)).toMatchObject({ reason: "no_answer", may_have_happened: true });
  });
});

describe("several asks", () => {
  it("to one device wait for each other; to another they do not", async () => {
    const world = await createWorld();
    const first = world.ask({ action: "one" });
    const second = world.ask({ action: "two" });
    const other = world.ask({ device: "tablet-2", action: "three" });
    const [phone, tablet] = [await world.sent(0), await world.sent(1)];
    expect(phone.tasks[0]?.action).toBe("one");
    expect(tablet.tasks[0]?.action).toBe("three");
    await world.clock.advance(5_000);
    expect(world.rooms.opened).toHaveLength(2);
    phone.frame(reply(phone));
    const next = await world.sent(2);
    expect(next.tasks[0]?.action).toBe("two");
    next.frame(reply(next));
    tablet.frame(reply(tablet));
    const results = await Promise.all([first, second, other].map(told));
    expect(results.map(({ outcome }) => outcome)).toEqual(["done", "done", "done"]);
  });

  it("wait at most as long as a device may take to join", async () => {
    const world = await createWorld({ block: { replyTimeoutMs: 300_000 } });
    const first = world.ask();
    const second = world.ask();
    const room = await world.sent();
    const result = await toldAfter(world, 60_001, second);
    expect(result).toMatchObject({
      outcome: "not_joined",
      reason: "no_join",
      error: expect.stringContaining("An earlier request"),
    });
    expect(world.notifier.rings).toHaveLength(1);
    room.frame(reply(room));
    expect(await told(first)).toMatchObject({ outcome: "done" });
    const third = world.ask();
    const next = await world.sent(1);
    next.frame(reply(next));
    expect(await told(third)).toMatchObject({ outcome: "done" });
  });
});

describe("a store that fails", () => {
  const failsOn = (kind: string) => (kinds: readonly string[]) => kinds.includes(kind);

  it.each(["call.create", "call.update reaching", "call.update offered"])(
    "before the task was sent: nothing happened (%s)",
    async (kind) => {
      const world = await createWorld();
      world.failCommits(failsOn(kind));
      const asking = world.ask();
      if (kind === "call.update offered") (await world.rung()).emit({ type: "joined" });
      const result = await toldAfter(world, 5_000, asking);
      expect(result).toMatchObject({
        outcome: "unreachable",
        error: expect.stringContaining("Nothing happened on the device."),
      });
      expect(world.rooms.opened.flatMap(({ tasks }) => tasks)).toEqual([]);
      expect(world.rooms.opened.every(({ timesClosed }) => timesClosed === 1)).toBe(true);
    },
  );

  it("at the outcome: tries again, and the agent is told the truth", async () => {
    const world = await createWorld();
    let failures = 0;
    world.failCommits((kinds) => kinds.includes("call.update answered") && ++failures <= 2);
    const asking = world.ask();
    const room = await world.sent();
    room.frame(reply(room));
    expect(await toldAfter(world, 1_000, asking)).toMatchObject({ outcome: "done" });
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "answered" });
  });

  it("at the outcome and for good: the agent is told the truth all the same", async () => {
    const world = await createWorld();
    world.failCommits(failsOn("call.update answered"));
    const asking = world.ask();
    const room = await world.sent();
    room.frame(reply(room));
    expect(await toldAfter(world, 5_000, asking)).toMatchObject({ outcome: "done" });
    expect(await asking).toMatchObject({ callId: "ask_1" });
  });

  it("on a note for people: the ask goes on", async () => {
    const world = await createWorld();
    world.failCommits((kinds) => kinds.every((kind) => kind === "event.append" || kind === "offer.append"));
    const asking = world.ask();
    const room = await world.sent();
    room.frame(reply(room));
    expect(await told(asking)).toMatchObject({ outcome: "done" });
  });
});

describe("an end from outside", () => {
  it("by its id, before the task: nothing happened", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.rung();
    expect(await world.action.cancel("ask_1")).toBe("cancelled");
    expect(await told(asking)).toMatchObject({ outcome: "not_joined", reason: "cancelled" });
    expect(await world.events()).toContain("ask.cancel_requested");
    await world.clock.advance(0);
    expect([room.timesClosed, room.cancelled]).toEqual([1, []]);
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "cancelled" });
  });

  it("by its id, after the task: it may have happened, and the device is told", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    expect(await world.action.cancel("ask_1")).toBe("cancelled");
    expect(await told(asking)).toMatchObject({ outcome: "failed", reason: "cancelled", may_have_happened: true });
    await world.clock.advance(0);
    expect([room.timesClosed, room.cancelled]).toEqual([1, ["ask_1"]]);
  });

  it("does not come when there is an outcome already, or no such ask here", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    room.frame(reply(room));
    await asking;
    expect(await world.action.cancel("ask_1")).toBe("already_settled");
    expect(await world.action.cancel("ask_99")).toBe("unknown");
  });

  it.each([
    [new Error("the run was cancelled"), { outcome: "failed", reason: "cancelled", may_have_happened: true }],
    [{ interruption: "shutdown" }, { outcome: "failed", reason: "mesh_restarted", may_have_happened: true }],
  ])("by the run's signal: %o", async (why, expected) => {
    const world = await createWorld();
    const run = new AbortController();
    const asking = world.ask({}, { signal: run.signal });
    await world.sent();
    run.abort(why);
    expect(await told(asking)).toMatchObject(expected);
  });

  it("before it began: rings nobody", async () => {
    const world = await createWorld();
    expect(await told(world.ask({}, { signal: AbortSignal.abort() }))).toMatchObject({ reason: "cancelled" });
    expect(world.rooms.opened).toHaveLength(0);
  });

  it("with the session: what needs it is not begun", async () => {
    const world = await createWorld();
    await world.backend.commit([{ kind: "session.end", sessionId: "s1", at: world.clock.nowMs() }]);
    expect(await told(world.ask())).toMatchObject({ outcome: "not_joined", reason: "cancelled" });
    expect(world.rooms.opened).toHaveLength(0);
  });

  it("with the mesh: open asks may end within the grace, the rest are ended, all rooms closed", async () => {
    const world = await createWorld();
    const quick = world.ask();
    const slow = world.ask({ device: "tablet-2" });
    const [first, second] = [await world.sent(0), await world.sent(1)];
    let isStopped = false;
    const stopping = world.action.stop({ graceMs: 5_000 }).then(() => {
      isStopped = true;
    });
    await world.clock.advance(2_000);
    first.frame(reply(first));
    expect(await told(quick)).toMatchObject({ outcome: "done" });
    expect(await told(world.ask())).toMatchObject({ outcome: "unreachable", reason: "mesh_restarted" });
    expect(isStopped).toBe(false);
    await world.clock.advance(3_000);
    await stopping;
    expect(await told(slow)).toMatchObject({ outcome: "failed", reason: "mesh_restarted", may_have_happened: true });
    expect([first.timesClosed, second.timesClosed]).toEqual([1, 1]);
    expect(second.cancelled).toHaveLength(1);
    expect(world.clock.pendingTimers).toBe(0);
  });

  it("by somebody else who settled it: that outcome stands, and no task is sent", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.rung();
    await world.until(() => world.notifier.rings.length > 0);
    await world.clock.advance(0);
    const call = await world.backend.call("ask_1");
    if (!call) throw new Error("the call is not stored");
    const result: AskResult = {
      outcome: "unreachable",
      success: false,
      error: "Elsewhere.",
      reason: "mesh_restarted",
      device: "phone-7",
    };
    await world.backend.commit([
      {
        kind: "call.update",
        callId: "ask_1",
        version: call.version,
        patch: { state: "undeliverable", result, outcome: "unreachable" },
      },
    ]);
    room.emit({ type: "joined" });
    expect(await told(asking)).toEqual(result);
    expect(room.tasks).toEqual([]);
    await world.clock.advance(0);
    expect(room.timesClosed).toBe(1);
  });
});

describe("an adapter that breaks its contract", () => {
  it("before the task: nothing happened, and the room is closed", async () => {
    const world = await createWorld();
    world.rooms.onRoom = (room) => {
      room.events[Symbol.asyncIterator] = () => {
        throw new TypeError("undefined is not a function");
      };
    };
    expect(await told(world.ask())).toMatchObject({ outcome: "unreachable" });
    expect(world.notifier.rings).toHaveLength(0);
    await world.clock.advance(0);
    expect(world.rooms.opened[0]?.timesClosed).toBe(1);
  });

  it.each([
    [
      "throws on sending",
      (room: ScriptedRoom) => {
        room.send = () => {
          throw new TypeError("undefined is not a function");
        };
      },
    ],
    [
      "rejects the send",
      (room: ScriptedRoom) => {
        room.onTask = () => {
          throw new TypeError("undefined is not a function");
        };
      },
    ],
    [
      "ends its events without a word",
      (room: ScriptedRoom) => {
        room.onTask = () => room.events.end();
      },
    ],
  ])("and %s: it may have happened", async (_name, breakIt) => {
    const world = await createWorld();
    world.rooms.onRoom = breakIt;
    const asking = world.ask();
    const room = await world.rung();
    room.emit({ type: "joined" });
    for (let turn = 0; turn < 50; turn++) await world.clock.advance(0);
    expect(await toldAfter(world, 60_001, asking)).toMatchObject({ outcome: "failed", may_have_happened: true });
    await world.clock.advance(0);
    expect(room.timesClosed).toBe(1);
    expect(world.clock.pendingTimers).toBe(0);
  });

  it("and does not close: the agent does not wait for it, a stop of the mesh only for so long", async () => {
    const world = await createWorld();
    const asking = world.ask();
    const room = await world.sent();
    room.close = () => new Promise<never>(() => {});
    room.cancel = () => new Promise<never>(() => {});
    await world.action.cancel("ask_1");
    expect(await told(asking)).toMatchObject({ reason: "cancelled" });
    expect(world.held.now).toBe(1);
    const stopping = world.action.stop({ graceMs: 0 });
    await world.clock.advance(8_000);
    await stopping;
    expect(world.held.now).toBe(0);
  });
});

describe("after a restart", () => {
  /** Another process on the same store finds the call as `state`. */
  async function found(world: World, begin: () => Promise<unknown>): Promise<ToolResult> {
    void world.ask().catch(() => {});
    await begin();
    await world.clock.advance(0);
    const call = await world.backend.call("ask_1");
    if (!call) throw new Error("the call is not stored");
    const next = createDeviceAction({
      backend: world.backend,
      devices: { list: async () => [{ id: "phone-7", pushToken: new Secret(TOKEN) }] },
      connectionsOf: () => ({
        notifier: () => undefined,
        room: () => ({ name: null, provider: "scripted", rooms: world.rooms }),
        checkAll: async () => [],
        hold: () => () => {},
        retire() {},
        async close() {},
      }),
      signer,
      clock: world.clock,
      logger: silentLogger,
      newId: (prefix) => `${prefix}_next`,
      random: () => 0,
    });
    const agent = {
      name: "helper",
      device: { connection: "phones", approval: "ask", joinTimeoutMs: 1, replyTimeoutMs: 1 },
    } as Agent;
    const mesh = { name: "m", limits: { toolResultMaxChars: 30_000 } } as Mesh;
    const [tool] = await next.provider.toolsFor(agent, { sessionId: "s1", runId: "r1", mesh });
    if (!tool?.recover) throw new Error("the tool cannot recover");
    const { sessionId, runId, turn, position, providerCallId } = call;
    const invocation = { sessionId, runId, turn, position, providerCallId, agent: "helper", arguments: call.arguments };
    return tool.recover(call, {
      invocation,
      signal: new AbortController().signal,
      deadlineAtMs: world.clock.nowMs() + 1_000,
    });
  }

  it("an ask whose task was not about to be sent did not happen", async () => {
    const world = await createWorld();
    const result = await found(world, () => world.rung());
    expect(JSON.parse(result.content)).toMatchObject({
      outcome: "unreachable",
      reason: "mesh_restarted",
      device: "phone-7",
    });
    expect(result).toMatchObject({ success: false, callId: "ask_1" });
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "undeliverable", reached: "no" });
  });

  it("an ask whose task was about to be sent may have happened", async () => {
    const world = await createWorld();
    const result = await found(world, () => world.sent());
    expect(JSON.parse(result.content)).toMatchObject({
      outcome: "failed",
      reason: "mesh_restarted",
      may_have_happened: true,
    });
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "lost", reached: "maybe" });
  });

  it("an answer that the room kept is the answer", async () => {
    const world = await createWorld();
    world.rooms.recover = async (label, askId) => ({ type: "reply", id: askId, outcome: "done", data: label });
    const result = await found(world, () => world.sent());
    expect(JSON.parse(result.content)).toMatchObject({ outcome: "done", data: "room-ask_1" });
    expect(await world.backend.call("ask_1")).toMatchObject({ state: "answered", reached: "yes" });
  });

  it.each([
    ["of another ask", async () => ({ type: "reply", id: "ask_2", outcome: "done" }) as const],
    ["that is no answer yet", async (_label: string, id: string) => ({ type: "accepted", id }) as const],
    ["that there is none", async () => undefined],
    [
      "that cannot be had",
      async () => {
        throw new RoomError("unavailable", "down");
      },
    ],
  ])("what the room kept is no answer: %s", async (_name, recover) => {
    const world = await createWorld();
    world.rooms.recover = recover;
    const result = await found(world, () => world.sent());
    expect(JSON.parse(result.content)).toMatchObject({ reason: "mesh_restarted", may_have_happened: true });
  });

  it("a stored outcome is told as it is", async () => {
    const world = await createWorld();
    const result = await found(world, async () => {
      const room = await world.sent();
      room.frame(reply(room, { data: { level: 80 } }));
      await world.until(() => room.timesClosed > 0);
    });
    expect(JSON.parse(result.content)).toMatchObject({ outcome: "done", data: { level: 80 } });
    expect(await world.payloads("ask.settled")).toHaveLength(1);
  });
});

describe("uploads", () => {
  it("travel with the task and come back with the result", async () => {
    const world = await createWorld({
      uploads: {
        open: ({ callId, notifier }) => ({
          url: `https://mesh.example.com/api/asks/${callId}/uploads?${notifier}`,
          token: "up",
          max_bytes: 1_000,
        }),
        find: async (callId, name) => ({
          id: `${callId}-${name}`,
          image: { type: "image", mediaType: "image/png", base64: "aGk=" },
        }),
      },
    });
    const asking = world.ask();
    const room = await world.sent();
    expect(room.tasks[0]?.upload).toEqual({
      url: "https://mesh.example.com/api/asks/ask_1/uploads?push",
      token: "up",
      max_bytes: 1_000,
    });
    room.frame(reply(room, { data: { upload: "photo.png" } }));
    expect(await asking).toMatchObject({ uploads: ["ask_1-photo.png"], images: [{ base64: "aGk=" }] });
  });
});
