import { ROOM_CLOSE } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { Mailbox } from "@leafmesh/testkit/suites";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { cuttableWebSocket } from "../testing/cuttable-socket.ts";
import { type Mesh, startMesh } from "../testing/mesh.ts";
import { newSigner, ringFor } from "../testing/rings.ts";
import { startRoomDouble, taskFrame, welcomeFrame } from "../testing/room-double.ts";
import { startWebServer } from "../testing/web-server.ts";
import { decline } from "./answers.ts";
import { type Connector, JoinError } from "./connector.ts";
import { leafmeshConnector } from "./connectors/leafmesh.ts";
import { type ApprovalQuestion, createDevice, type Device, type DeviceOptions } from "./device.ts";
import type { DeviceEvent } from "./events.ts";
import { type Task, TaskStopped } from "./handlers.ts";
import { createMemoryLedger, type Ledger, type LedgerRecord } from "./ledger.ts";

let mesh: Mesh;
let clock: ReturnType<typeof createFakeClock>;
const devices: Device[] = [];

beforeEach(async () => {
  clock = createFakeClock();
  mesh = await startMesh(() => clock.nowMs());
});
afterEach(async () => {
  await Promise.all(devices.splice(0).map((device) => device.close()));
  await mesh.close();
});

interface Rig {
  readonly device: Device;
  readonly events: Mailbox<DeviceEvent>;
  event<Type extends DeviceEvent["type"]>(type: Type): Promise<Extract<DeviceEvent, { type: Type }>>;
  /** Tasks that the handler `battery.read` was given. */
  readonly acted: Task[];
}

function rig(changes: Partial<DeviceOptions> = {}): Rig {
  const events = new Mailbox<DeviceEvent>();
  const acted: Task[] = [];
  const device = createDevice({
    id: "phone-7",
    handlers: {
      "battery.read": (task) => {
        acted.push(task);
        return { level: 71 };
      },
    },
    clock,
    onEvent: (event) => events.put(event),
    ...changes,
  });
  devices.push(device);
  return {
    device,
    events,
    acted,
    event: <Type extends DeviceEvent["type"]>(type: Type) =>
      events.next((event): event is Extract<DeviceEvent, { type: Type }> => event.type === type),
  };
}

/** A handler that runs until the test ends it, or it is stopped. */
function slowHandler() {
  const started = new Mailbox<Task>();
  const gate = Promise.withResolvers<unknown>();
  const handler = (task: Task): Promise<unknown> => {
    started.put(task);
    const stopped = new Promise((_resolve, reject) => {
      task.signal.addEventListener("abort", () => reject(task.signal.reason));
    });
    return Promise.race([gate.promise, stopped]);
  };
  return { started, handler, finish: gate.resolve };
}

describe("an ask from ring to reply", () => {
  it("joins, accepts, acts once, replies, and leaves", async () => {
    const { device, events, acted } = rig();
    const room = await mesh.open();
    const ended = device.handleRing(JSON.stringify(room.ring), "direct");
    expect(await room.frame("peer")).toMatchObject({ state: "joined" });
    room.task({ inputs: { precise: true } });
    expect(await room.frame("accepted")).toMatchObject({ id: "ask_1" });
    expect(await room.frame("reply")).toMatchObject({ id: "ask_1", outcome: "done", data: { level: 71 } });
    expect(await room.frame("peer")).toMatchObject({ state: "left", reason: "left" });
    expect(await ended).toEqual({
      status: "answered",
      outcome: "done",
      code: undefined,
      delivered: true,
      repeated: false,
    });
    expect(acted).toHaveLength(1);
    expect(acted[0]).toMatchObject({
      action: "battery.read",
      inputs: { precise: true },
      ask: "ask_1",
      mesh: "support",
    });
    expect(events.takeAll().map(({ type }) => type)).toEqual([
      "ring",
      "joined",
      "task",
      "accepted",
      "handled",
      "replied",
      "delivered",
      "settled",
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("takes the signed ring of its mesh from anywhere, and no other", async () => {
    const signer = await newSigner();
    const { device } = rig({ meshKeys: [signer.key] });
    const room = await mesh.open();
    const { kid: _kid, sig: _sig, ...unsigned } = room.ring;
    expect(await device.handleRing(unsigned)).toMatchObject({ status: "ignored", reason: "unsigned" });
    const signed = await signer.sign(unsigned);
    expect(await device.handleRing({ ...signed, exp: signed.exp + 1 })).toMatchObject({ reason: "bad_signature" });
    const ended = device.handleRing(signed);
    expect(await room.frame("peer")).toMatchObject({ state: "joined" });
    room.task();
    expect(await ended).toMatchObject({ status: "answered", delivered: true });
  });

  it("tells the mesh what it can do on joining", async () => {
    const capabilities = [{ name: "battery.read", description: "Reads the battery", effect: "read" as const }];
    const { device } = rig({ capabilities });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    expect(await room.frame("peer")).toMatchObject({ state: "joined", capabilities });
  });

  it("reports progress", async () => {
    const { device } = rig({
      handlers: {
        "photo.take": (task) => {
          task.progress("opening the camera", 20);
          return "taken";
        },
      },
    });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task({ action: "photo.take" });
    expect(await room.frame("progress")).toMatchObject({ note: "opening the camera", pct: 20 });
    expect(await room.frame("reply")).toMatchObject({ outcome: "done", data: "taken" });
  });

  it("brings a file to the mesh and refers to it", async () => {
    const bodies: string[] = [];
    const uploads = await startWebServer((request, body, response) => {
      bodies.push(`${request.method} ${request.url} ${request.headers.authorization} ${body}`);
      response.writeHead(201).end("{}");
    });
    const { device } = rig({
      handlers: {
        "photo.take": async ({ upload }) => ({
          photo: await upload("photo.png", new TextEncoder().encode("PNG"), "image/png"),
        }),
      },
    });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task({ action: "photo.take", upload: { url: `${uploads.url}/up`, token: "one-use", max_bytes: 10 } });
    expect(await room.frame("reply")).toMatchObject({
      outcome: "done",
      data: { photo: { upload: "photo.png", media_type: "image/png", size: 3 } },
    });
    expect(bodies).toEqual(["PUT /up/photo.png Bearer one-use PNG"]);
    await uploads.close();
  });

  it("says so when a file could not be brought", async () => {
    const { device } = rig({
      handlers: { "photo.take": ({ upload }) => upload("photo.png", new Uint8Array(3), "image/png") },
    });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task({ action: "photo.take" });
    expect(await room.frame("reply")).toMatchObject({ outcome: "failed", error: { code: "upload_not_offered" } });
  });

  it("says what the handler says", async () => {
    const { device } = rig({ handlers: { "message.send": () => decline("not in a meeting") } });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task({ action: "message.send" });
    expect(await room.frame("reply")).toMatchObject({ outcome: "declined", error: { message: "not in a meeting" } });
    expect(await ended).toMatchObject({ status: "answered", outcome: "declined" });
  });

  it("serves several asks at once, and no more than allowed", async () => {
    const { started, handler, finish } = slowHandler();
    const { device } = rig({ handlers: { "battery.read": handler }, maxAsks: 2 });
    const rooms = await Promise.all(["a", "b", "c"].map((ask) => mesh.open({ ask })));
    const ends = rooms.map(({ ring }) => device.handleRing(ring));
    expect(await ends[2]).toMatchObject({ status: "ignored", reason: "too_many" });
    for (const room of rooms.slice(0, 2)) room.task();
    await started.next();
    await started.next();
    finish("both");
    expect(await Promise.all(ends.slice(0, 2))).toMatchObject([{ status: "answered" }, { status: "answered" }]);
  });
});

describe("at most once", () => {
  it("stores before it accepts, and accepts before it acts", async () => {
    const order: string[] = [];
    const stored = Promise.withResolvers<void>();
    const inner = createMemoryLedger();
    const ledger: Ledger = {
      ...inner,
      async claim(record) {
        order.push(`claim ${record.state}`);
        await stored.promise;
        return inner.claim(record);
      },
      async put(record) {
        order.push(`put ${record.state}${record.delivered ? " delivered" : ""}`);
        return inner.put(record);
      },
    };
    const { device } = rig({ ledger, handlers: { "battery.read": () => void order.push("act") } });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    await room.frame("peer");
    room.task();
    while (!order.includes("claim accepted")) await clock.advance(0);
    for (let turn = 0; turn < 20; turn++) await clock.advance(0);
    expect(room.frames.takeAll().map(({ type }) => type)).not.toContain("accepted");
    expect(order).toEqual(["claim accepted"]);
    stored.resolve();
    await room.frame("accepted");
    await ended;
    expect(order).toEqual(["claim accepted", "act", "put answered", "put answered delivered"]);
  });

  it("does not begin when the ledger does not take the record", async () => {
    const ledger: Ledger = { ...createMemoryLedger(), claim: () => Promise.reject(new Error("disk full")) };
    const { device, acted } = rig({ ledger });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    expect(await room.frame("reply")).toMatchObject({
      outcome: "failed",
      error: { code: "ledger_unavailable", may_have_happened: false },
    });
    expect(acted).toEqual([]);
  });

  it("does not join when the ledger cannot be read", async () => {
    const ledger: Ledger = { ...createMemoryLedger(), get: () => Promise.reject(new Error("unreadable")) };
    const { device } = rig({ ledger });
    const room = await mesh.open();
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "ignored", reason: "ledger_unavailable" });
    expect(room.frames.takeAll()).toEqual([]);
  });

  it("ignores a ring for an ask that it is serving, and for one whose answer arrived", async () => {
    const { started, handler, finish } = slowHandler();
    const { device } = rig({ handlers: { "battery.read": handler } });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    await started.next();
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "ignored", reason: "repeated" });
    finish("ok");
    expect(await ended).toMatchObject({ delivered: true });
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "ignored", reason: "repeated" });
    expect(started.takeAll()).toEqual([]);
  });

  it("lets one of two rings that come in one moment through", async () => {
    const { device, acted } = rig();
    const room = await mesh.open();
    const both = [device.handleRing(room.ring), device.handleRing(room.ring)];
    room.task();
    const ended = await Promise.all(both);
    expect(ended.map(({ status }) => status).sort()).toEqual(["answered", "ignored"]);
    expect(acted).toHaveLength(1);
  });

  it("answers a repeat from its record, with the same answer, and does not act", async () => {
    const ledger = createMemoryLedger();
    const answer = { outcome: "done", data: { level: 12 } } as const;
    await ledger.put({ id: "ask_1", state: "answered", at: clock.nowMs(), answer });
    const { device, acted } = rig({ ledger });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    expect(await room.frame("reply")).toMatchObject(answer);
    expect(await ended).toMatchObject({ status: "answered", repeated: true, delivered: true });
    expect(acted).toEqual([]);
    expect(await ledger.get("ask_1")).toMatchObject({ delivered: true });
  });

  it("says that it does not know when it was interrupted after it had begun", async () => {
    const ledger = createMemoryLedger();
    await ledger.claim({ id: "ask_1", state: "accepted", at: clock.nowMs() });
    const { device, acted } = rig({ ledger });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    expect(await room.frame("reply")).toMatchObject({
      outcome: "failed",
      error: { code: "outcome_unknown", may_have_happened: true },
    });
    expect(acted).toEqual([]);
    expect(await ledger.get("ask_1")).toMatchObject({
      state: "answered",
      answer: { error: { code: "outcome_unknown" } },
    });
  });

  it("believes another tab that was quicker", async () => {
    const inner = createMemoryLedger();
    const theirs: LedgerRecord = { id: "ask_1", state: "answered", at: 1, answer: { outcome: "done", data: "theirs" } };
    const { device, acted } = rig({ ledger: { ...inner, claim: async () => theirs } });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    expect(await room.frame("reply")).toMatchObject({ outcome: "done", data: "theirs" });
    expect(acted).toEqual([]);
  });

  it("believes another tab where the person said no", async () => {
    const theirs: LedgerRecord = { id: "ask_1", state: "refused", at: 1 };
    const { device, acted } = rig({ ledger: { ...createMemoryLedger(), claim: async () => theirs } });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    expect(await room.frame("reply")).toMatchObject({ outcome: "declined" });
    expect(acted).toEqual([]);
  });

  it("keeps the answer when the room is gone, for the next ring of the ask", async () => {
    const ledger = createMemoryLedger();
    const { started, handler, finish } = slowHandler();
    const first = rig({
      ledger,
      handlers: { "battery.read": async (task) => await handler(task).catch(() => "late") },
    });
    const room = await mesh.open();
    const ended = first.device.handleRing(room.ring);
    room.task();
    await started.next();
    room.close();
    expect(await ended).toEqual({
      status: "answered",
      outcome: "done",
      code: undefined,
      delivered: false,
      repeated: false,
    });
    finish(undefined);
    const second = await mesh.open();
    const again = first.device.handleRing(second.ring);
    second.task();
    expect(await second.frame("reply")).toMatchObject({ outcome: "done", data: "late" });
    expect(await again).toMatchObject({ repeated: true, delivered: true });
    expect(started.takeAll()).toEqual([]);
  });

  it("prunes old records now and then", async () => {
    const pruned: number[] = [];
    const ledger: Ledger = { ...createMemoryLedger(), prune: async (beforeMs) => void pruned.push(beforeMs) };
    const { device } = rig({ ledger });
    const served = async (ask: string): Promise<void> => {
      const room = await mesh.open({ ask });
      const ended = device.handleRing(room.ring);
      room.task();
      await ended;
    };
    await served("a");
    await served("b");
    expect(pruned).toEqual([clock.nowMs() - 24 * 3_600_000 - 60_000]);
    await clock.advance(3_600_000);
    await served("c");
    expect(pruned).toHaveLength(2);
  });
});

describe("a task that must not run", () => {
  async function replyTo(task: Parameters<Awaited<ReturnType<Mesh["open"]>>["task"]>[0], changes = {}) {
    const { device, acted } = rig(changes);
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task(task);
    const reply = await room.frame("reply");
    await ended;
    return { reply, acted };
  }

  it.each(["nope", "constructor", "toString", "__proto__"])(
    "names the action %s, which it cannot do",
    async (action) => {
      const { reply, acted } = await replyTo({ action });
      expect(reply).toMatchObject({
        outcome: "failed",
        error: {
          code: "unknown_action",
          message: `This device cannot do "${action}"; it can do: battery.read`,
          may_have_happened: false,
        },
      });
      expect(acted).toEqual([]);
    },
  );

  it("has expired", async () => {
    const expiresAt = Math.floor(clock.nowMs() / 1000) - 5;
    const { reply, acted } = await replyTo({ expires_at: expiresAt });
    expect(reply).toMatchObject({ outcome: "failed", error: { code: "expired", may_have_happened: false } });
    expect(acted).toEqual([]);
  });

  it("has no time left", async () => {
    const { reply, acted } = await replyTo({ budget_ms: 0 });
    expect(reply).toMatchObject({ error: { code: "expired" } });
    expect(acted).toEqual([]);
  });

  it("has not expired when only this device's clock is ahead, by less than a minute", async () => {
    const { device, acted } = rig();
    const meshNowMs = clock.nowMs() - 50_000;
    const room = await mesh.open({ iat: Math.floor(meshNowMs / 1000), exp: Math.floor(meshNowMs / 1000) + 30 });
    const ended = device.handleRing(room.ring);
    room.task({ expires_at: Math.floor(meshNowMs / 1000) + 20 });
    expect(await ended).toMatchObject({ outcome: "done" });
    expect(acted).toHaveLength(1);
  });

  it("has expired when this device's clock is behind and says otherwise", async () => {
    const { device, acted, event } = rig();
    const meshNowMs = clock.nowMs() + 50_000;
    const room = await mesh.open({ iat: Math.floor(meshNowMs / 1000), exp: Math.floor(meshNowMs / 1000) + 60 });
    const ended = device.handleRing(room.ring);
    await event("joined");
    await clock.advance(21_000);
    room.task({ expires_at: Math.floor(meshNowMs / 1000) + 20 });
    expect(await ended).toMatchObject({ outcome: "failed", code: "expired" });
    expect(acted).toEqual([]);
  });

  it("has another id than the ring's", async () => {
    const { device, acted } = rig();
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task({ id: "ask_2" });
    expect(await ended).toMatchObject({ status: "no_task", reason: "wrong_task" });
    expect(await room.frame("peer")).toMatchObject({ state: "joined" });
    expect(await room.frame("peer")).toMatchObject({ state: "left" });
    expect(acted).toEqual([]);
  });

  it("was cancelled while its record was being stored", async () => {
    const stored = Promise.withResolvers<void>();
    const inner = createMemoryLedger();
    const ledger: Ledger = { ...inner, claim: (record) => stored.promise.then(() => inner.claim(record)) };
    const { device, acted, event } = rig({ ledger });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    room.send({ type: "cancel", id: "ask_1", reason: "not needed" });
    await event("cancelled");
    stored.resolve();
    expect(await room.frame("reply")).toMatchObject({
      outcome: "failed",
      error: { code: "cancelled", may_have_happened: false },
    });
    expect(acted).toEqual([]);
  });

  it("lost its room while its record was being stored", async () => {
    const stored = Promise.withResolvers<void>();
    const inner = createMemoryLedger();
    const ledger: Ledger = { ...inner, claim: (record) => stored.promise.then(() => inner.claim(record)) };
    const { device, acted, event } = rig({ ledger });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    await event("task");
    room.close();
    await event("closed");
    stored.resolve();
    expect(await ended).toMatchObject({ status: "answered", code: "room_ended", delivered: false });
    expect(acted).toEqual([]);
  });
});

describe("a task that is stopped", () => {
  it("hears of the mesh's cancel", async () => {
    const { started, handler } = slowHandler();
    const { device } = rig({ handlers: { "battery.read": handler } });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    const { signal } = await started.next();
    room.send({ type: "cancel", id: "another", reason: "x" });
    room.send({ type: "cancel", id: "ask_1", reason: "not needed" });
    expect(await room.frame("reply")).toMatchObject({
      outcome: "failed",
      error: { code: "cancelled", message: "The mesh cancelled the task: not needed", may_have_happened: true },
    });
    expect(signal.reason).toBeInstanceOf(TaskStopped);
  });

  it("hears that its time is over, measured from receipt on a clock that nobody sets", async () => {
    const { started, handler } = slowHandler();
    const { device } = rig({ handlers: { "battery.read": handler } });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task({ budget_ms: 10_000 });
    const { signal } = await started.next();
    clock.setWallClock(0);
    await clock.advance(9_999);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(await room.frame("reply")).toMatchObject({ error: { code: "timed_out", may_have_happened: true } });
  });

  it("hears that its room was closed", async () => {
    const { started, handler } = slowHandler();
    const { device, event } = rig({ handlers: { "battery.read": handler } });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    const { signal } = await started.next();
    room.close();
    expect(await event("closed")).toMatchObject({ reason: "closed" });
    expect(signal.reason).toMatchObject({ stopCause: "room_ended" });
    expect(await ended).toMatchObject({ code: "room_ended", delivered: false });
  });

  it("hears that the device is closed, and the mesh gets an answer", async () => {
    const { started, handler } = slowHandler();
    const { device } = rig({ handlers: { "battery.read": handler } });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    await started.next();
    await device.close();
    expect(await room.frame("reply")).toMatchObject({ error: { code: "device_closed", may_have_happened: true } });
    expect(await ended).toMatchObject({ delivered: true });
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "ignored", reason: "device_closed" });
  });
});

describe("an answer that is too large", () => {
  it("says that it was done and how large the answer is", async () => {
    const ledger = createMemoryLedger();
    const { device } = rig({ ledger, handlers: { "battery.read": () => "x".repeat(70_000) } });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    const reply = await room.frame("reply");
    expect(reply).toMatchObject({ outcome: "failed", error: { code: "reply_too_large", may_have_happened: true } });
    expect(reply.error?.message).toMatch(
      /ended with "done", but its answer has 70\d{3} bytes and the room takes 65512/,
    );
    expect(await ledger.get("ask_1")).toMatchObject({ answer: { error: { code: "reply_too_large" } } });
  });

  it("passes when it just fits", async () => {
    const { device } = rig({ handlers: { "battery.read": () => "x".repeat(65_400) } });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    room.task();
    expect(await room.frame("reply")).toMatchObject({ outcome: "done" });
  });
});

describe("a link that is lost in the middle of a task", () => {
  it("comes back, acts once, and the answer arrives", async () => {
    const cuttable = cuttableWebSocket();
    const { started, handler, finish } = slowHandler();
    const connector = leafmeshConnector({ clock, WebSocket: cuttable.WebSocket, random: () => 0 });
    const { device, event } = rig({ connectors: [connector], handlers: { "battery.read": handler } });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    await started.next();
    await room.frame("accepted");
    cuttable.cut();
    await event("away");
    finish({ level: 71 });
    expect(await room.frame("peer")).toMatchObject({ state: "away" });
    await clock.advance(250);
    await event("back");
    expect(await room.frame("peer")).toMatchObject({ state: "back" });
    expect(await room.frame("reply")).toMatchObject({ outcome: "done", data: { level: 71 } });
    expect(await ended).toMatchObject({ delivered: true });
    expect(started.takeAll()).toEqual([]);
    expect(cuttable.opened).toBe(2);
  });
});

describe("a device that is closed while its link is down", () => {
  it("waits a little for the link, and keeps its answer", async () => {
    const cuttable = cuttableWebSocket();
    const ledger = createMemoryLedger();
    const { started, handler, finish } = slowHandler();
    const connector = leafmeshConnector({ clock, WebSocket: cuttable.WebSocket });
    const { device, event } = rig({ connectors: [connector], ledger, handlers: { "battery.read": handler } });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    await started.next();
    await mesh.close();
    await event("away");
    finish("done");
    await event("replied");
    const closing = device.close();
    await clock.advance(2000);
    await closing;
    expect(await ended).toMatchObject({ status: "answered", outcome: "done", delivered: false });
    expect(await ledger.get("ask_1")).toMatchObject({ state: "answered", answer: { data: "done" } });
    expect(clock.pendingTimers).toBe(0);
  });
});

describe("the person's approval", () => {
  it("comes before the join", async () => {
    const questions = new Mailbox<ApprovalQuestion>();
    const decision = Promise.withResolvers<boolean>();
    const { device, event } = rig({
      approve: (question) => {
        questions.put(question);
        return decision.promise;
      },
    });
    const room = await mesh.open({ approval: "ask" });
    const ended = device.handleRing(room.ring, "push");
    expect(await questions.next()).toMatchObject({
      ask: "ask_1",
      mesh: "support",
      device: "phone-7",
      source: "push",
      withinMs: 60_000,
    });
    room.task();
    for (let turn = 0; turn < 20; turn++) await clock.advance(0);
    expect(room.frames.takeAll()).toEqual([]);
    decision.resolve(true);
    await event("allowed");
    expect(await room.frame("peer")).toMatchObject({ state: "joined" });
    expect(await ended).toMatchObject({ outcome: "done" });
  });

  it("is not asked for a silent ring", async () => {
    let asked = 0;
    const { device } = rig({
      approve: () => {
        asked++;
        return false;
      },
    });
    const room = await mesh.open();
    void device.handleRing(room.ring);
    expect(await room.frame("peer")).toMatchObject({ state: "joined" });
    expect(asked).toBe(0);
  });

  it.each<[string, DeviceOptions["approve"], string]>([
    ["says no", () => false, "not_allowed"],
    ["fails", () => Promise.reject(new Error("no screen")), "not_allowed"],
    [
      "throws",
      () => {
        throw new Error("no screen");
      },
      "not_allowed",
    ],
    ["is not there", undefined, "no_approve_function"],
  ])("refuses the connection when it %s, and the mesh hears of it", async (_what, approve, reason) => {
    const { device, acted } = rig({ approve });
    const room = await mesh.open({ approval: "ask" });
    expect(await device.handleRing(room.ring)).toEqual({ status: "refused", reason, told: true });
    expect(await room.frame("peer")).toMatchObject({ state: "refused", reason: "not_allowed" });
    room.task();
    expect(acted).toEqual([]);
  });

  it("is not asked twice for one ask", async () => {
    let asked = 0;
    const { device } = rig({
      approve: () => {
        asked++;
        return false;
      },
    });
    const room = await mesh.open({ approval: "ask" });
    await device.handleRing(room.ring);
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "ignored", reason: "repeated" });
    expect(asked).toBe(1);
  });

  it("is remembered when the room could not be joined at first", async () => {
    let asked = 0;
    let tries = 0;
    const real = leafmeshConnector({ clock });
    const connector: Connector = {
      ...real,
      join(ring, options) {
        tries++;
        return tries === 1 ? Promise.reject(new JoinError("unreachable", "offline")) : real.join(ring, options);
      },
    };
    const { device } = rig({
      connectors: [connector],
      approve: () => {
        asked++;
        return true;
      },
    });
    const room = await mesh.open({ approval: "ask" });
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "not_joined", reason: "unreachable" });
    const again = device.handleRing(room.ring);
    room.task();
    expect(await again).toMatchObject({ status: "answered" });
    expect(asked).toBe(1);
  });

  it("comes too late when the ring's time is over", async () => {
    let question: ApprovalQuestion | undefined;
    const { device, event } = rig({
      approve: (asked) => {
        question = asked;
        return new Promise(() => {});
      },
    });
    const room = await mesh.open({ approval: "ask" });
    const ended = device.handleRing(room.ring);
    await event("asking");
    await clock.advance(60_000);
    expect(await ended).toEqual({ status: "no_decision" });
    expect(question?.signal.aborted).toBe(true);
    expect(room.frames.takeAll()).toEqual([]);
  });

  it("cannot tell a mesh that is gone", async () => {
    const { device } = rig({ approve: () => false });
    const room = await mesh.open({ approval: "ask" });
    room.close();
    expect(await device.handleRing(room.ring)).toEqual({ status: "refused", reason: "not_allowed", told: false });
  });
});

describe("a room that cannot be joined", () => {
  it("is closed already: a late ring does nothing", async () => {
    const { device, acted } = rig();
    const room = await mesh.open();
    room.close();
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "not_joined", reason: "over" });
    expect(acted).toEqual([]);
  });

  it("has a guest already", async () => {
    const room = await mesh.open();
    const [first, second] = [rig(), rig()];
    const served = first.device.handleRing(room.ring);
    await room.frame("peer");
    expect(await second.device.handleRing(room.ring)).toMatchObject({ status: "not_joined", reason: "seat_taken" });
    room.task();
    expect(await served).toMatchObject({ delivered: true });
    expect(second.acted).toEqual([]);
  });

  it("is of a kind that needs another connector", async () => {
    const { device } = rig();
    const room = await mesh.open();
    const ring = { ...room.ring, join: { ...room.ring.join, provider: "pubnub" } };
    expect(await device.handleRing(ring)).toMatchObject({ status: "ignored", reason: "no_connector" });
  });

  it("sends no task", async () => {
    const { device, event } = rig();
    const iat = Math.floor(clock.nowMs() / 1000);
    const room = await mesh.open({ iat, exp: iat + 12 });
    const ended = device.handleRing(room.ring);
    await event("joined");
    await clock.advance(12_000);
    expect(await ended).toMatchObject({ status: "no_task", reason: "no_task_in_time" });
    expect(await room.frame("peer")).toMatchObject({ state: "joined" });
    expect(await room.frame("peer")).toMatchObject({ state: "left", reason: "left" });
  });

  it("is closed before the task", async () => {
    const { device } = rig();
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    await room.frame("peer");
    room.close();
    expect(await ended).toMatchObject({ status: "no_task", reason: "closed" });
  });

  it("is left when the device is closed", async () => {
    const { device, event } = rig();
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    await event("joined");
    await device.close();
    expect(await ended).toMatchObject({ status: "no_task", reason: "device_closed" });
    expect(await room.frame("peer")).toMatchObject({ state: "joined" });
    expect(await room.frame("peer")).toMatchObject({ state: "left" });
  });
});

describe("a second ring for one ask", () => {
  it("counts when it comes while the person is being asked: its token voids the first one", async () => {
    const service = await startRoomDouble();
    const decision = Promise.withResolvers<boolean>();
    const { device, event } = rig({ approve: () => decision.promise });
    const first = ringFor(clock.nowMs(), {
      approval: "ask",
      join: { provider: "leafmesh", url: service.url, room: "room-1", token: "first" },
    });
    const ended = device.handleRing(first);
    await event("asking");
    const second = { ...first, iat: first.iat + 1, exp: first.exp + 1, join: { ...first.join, token: "second" } };
    expect(await device.handleRing(second)).toMatchObject({ reason: "repeated" });
    decision.resolve(true);
    const connection = await service.connection();
    expect(await connection.frame("hello")).toMatchObject({ token: "second" });
    connection.send(welcomeFrame());
    connection.send(taskFrame());
    await connection.frame("reply");
    connection.send({ type: "ack", seq: 2 });
    expect(await ended).toMatchObject({ delivered: true });
    await service.close();
  });

  it("counts when it comes during the join, and when it takes the seat away", async () => {
    const service = await startRoomDouble();
    const { device, event } = rig();
    const join = { provider: "leafmesh", url: service.url, room: "room-1" };
    const ring = (token: string) => ringFor(clock.nowMs(), { join: { ...join, token } });
    const ended = device.handleRing(ring("first"));
    const first = await service.connection();
    await first.frame("hello");
    await device.handleRing(ring("second"));
    first.close(ROOM_CLOSE.tokenRefused, "void");
    const second = await service.connection();
    expect(await second.frame("hello")).toMatchObject({ token: "second" });
    second.send(welcomeFrame());
    await event("joined");
    await device.handleRing(ring("third"));
    second.send({ type: "closing", reason: "replaced" });
    const third = await service.connection();
    expect(await third.frame("hello")).toMatchObject({ token: "third" });
    third.close(ROOM_CLOSE.closed, "closed");
    expect(await ended).toMatchObject({ status: "not_joined", reason: "over" });
    await service.close();
  });
});

describe("what a device survives", () => {
  it.each([undefined, null, 7, "", "{", [], {}, { v: 1 }, "x".repeat(5000)])("a ring that is %j", async (ring) => {
    expect(await rig().device.handleRing(ring)).toMatchObject({ status: "ignored" });
  });

  it("an onEvent that throws", async () => {
    const { device } = rig({
      onEvent: () => {
        throw new Error("no screen");
      },
    });
    const room = await mesh.open();
    const ended = device.handleRing(room.ring);
    room.task();
    expect(await ended).toMatchObject({ outcome: "done", delivered: true });
  });

  it("a connector that breaks", async () => {
    const broken: Connector = {
      providers: ["leafmesh"],
      join: async () => ({
        maxEnvelopeBytes: 1000,
        // biome-ignore lint/correctness/useYield: it breaks before it yields
        events: (async function* () {
          throw new Error("bug");
        })(),
        send: () => "ended",
        acked: async () => false,
        leave: async () => {},
      }),
      refuse: async () => {},
    };
    const { device } = rig({ connectors: [broken] });
    const room = await mesh.open();
    expect(await device.handleRing(room.ring)).toMatchObject({ status: "no_task", reason: "protocol" });
    const { device: another } = rig({ connectors: [{ ...broken, join: () => Promise.reject(new Error("bug")) }] });
    expect(await another.handleRing(room.ring)).toMatchObject({ status: "not_joined", detail: "bug" });
  });
});

describe("createDevice", () => {
  it.each<[string, Partial<DeviceOptions>, string]>([
    ["an id that is none", { id: "phone 7" }, "createDevice: id must be 1 to 128 letters"],
    ["a capability without a handler", { capabilities: [{ name: "fly" }] }, 'capability "fly" has no handler'],
    ["a capability that is none", { capabilities: [{ name: "fly away" }] }, "createDevice: capabilities.0.name"],
    [
      "capabilities that no hello can carry",
      { capabilities: [{ name: "battery.read", inputs: { description: "x".repeat(40_000) } }] },
      "the limit is 32768",
    ],
  ])("refuses %s", (_what, changes, message) => {
    expect(() => rig(changes)).toThrow(message);
  });
});
