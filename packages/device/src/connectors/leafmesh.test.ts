import { type LogFields, type Logger, ROOM_CLOSE } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { Mailbox } from "@leafmesh/testkit/suites";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ringFor } from "../../testing/rings.ts";
import {
  type DoubleConnection,
  type RoomDouble,
  startRoomDouble,
  taskFrame,
  welcomeFrame,
} from "../../testing/room-double.ts";
import type { DeviceRoom, DeviceRoomEvent } from "../connector.ts";
import type { WebSocketLike } from "../socket.ts";
import { leafmeshConnector } from "./leafmesh.ts";

let service: RoomDouble;
beforeEach(async () => {
  service = await startRoomDouble();
});
afterEach(() => service.close());

const task = { type: "task", id: "ask_1", action: "battery.read", inputs: {}, budget_ms: 60_000 };
const never = new AbortController().signal;

function setUp() {
  const clock = createFakeClock();
  const warnings: unknown[] = [];
  const retries = new Mailbox<LogFields>();
  const logger: Logger = {
    debug() {},
    info: (_message, fields = {}) => retries.put(fields),
    warn: (_message, fields) => warnings.push(fields),
    error() {},
  };
  const connector = leafmeshConnector({ clock, logger, random: () => 1 });
  const ring = ringFor(clock.nowMs());
  const rungTo = (url: string) => ({ ...ring, join: { ...ring.join, url } });
  return { clock, connector, rungTo, ring: rungTo(service.url), warnings, retries };
}

interface Seated extends ReturnType<typeof setUp> {
  readonly room: DeviceRoom;
  readonly connection: DoubleConnection;
  readonly events: Mailbox<DeviceRoomEvent>;
  /** Resolves when the room's events have ended. */
  readonly ended: Promise<void>;
}

async function seated(welcome: Record<string, unknown> = {}): Promise<Seated> {
  const setting = setUp();
  const joining = setting.connector.join(setting.ring, { signal: never });
  const connection = await service.connection();
  await connection.frame("hello");
  connection.send(welcomeFrame(welcome));
  const room = await joining;
  const events = new Mailbox<DeviceRoomEvent>();
  const ended = (async () => {
    for await (const event of room.events) events.put(event);
  })();
  return { ...setting, room, connection, events, ended };
}

/** The link is cut and the seat's next connection has said hello. */
async function dropAndComeBack({ clock, connection, events }: Seated) {
  connection.cut();
  expect(await events.next()).toEqual({ type: "away" });
  await clock.advance(250);
  const next = await service.connection();
  return { next, hello: await next.frame("hello") };
}

describe("joining", () => {
  it("says hello with the token and what the device can do", async () => {
    const { connector, ring } = setUp();
    const joining = connector.join(ring, { capabilities: [{ name: "battery.read", effect: "read" }], signal: never });
    const connection = await service.connection();
    expect(await connection.frame("hello")).toEqual({
      type: "hello",
      v: 1,
      token: "device-token",
      client: { name: "leafmesh-device", version: "0.1.0" },
      capabilities: [{ name: "battery.read", effect: "read" }],
    });
    connection.send(welcomeFrame());
    expect((await joining).maxEnvelopeBytes).toBe(65_536 - 24);
  });

  it.each([
    ["over", ROOM_CLOSE.tokenRefused],
    ["over", ROOM_CLOSE.noSuchRoom],
    ["over", ROOM_CLOSE.closed],
    ["over", ROOM_CLOSE.expired],
    ["seat_taken", ROOM_CLOSE.seatTaken],
    ["unsupported", ROOM_CLOSE.unsupportedVersion],
    ["unsupported", ROOM_CLOSE.badFrame],
    ["unsupported", 1003],
  ])("fails as %s when the service closes with %i", async (kind, code) => {
    const { connector, ring } = setUp();
    const joining = connector.join(ring, { signal: never });
    const connection = await service.connection();
    await connection.frame("hello");
    connection.close(code, "because");
    await expect(joining).rejects.toMatchObject({ name: "JoinError", kind });
  });

  it("tries again, with growing pauses, while the service cannot be reached", async () => {
    const { clock, connector, ring, retries } = setUp();
    service.setOpen(false);
    const joining = connector.join(ring, { signal: never });
    for (const [tries, pauseMs] of [250, 500, 1000, 2000, 4000, 5000, 5000].entries()) {
      expect(await retries.next()).toMatchObject({ wait_ms: pauseMs });
      expect(service.refused).toBe(tries + 1);
      if (tries === 6) service.setOpen(true);
      await clock.advance(pauseMs);
    }
    const connection = await service.connection();
    await connection.frame("hello");
    connection.send(welcomeFrame());
    await joining;
  });

  it("tries again when the service does not answer", async () => {
    const { clock, connector, ring } = setUp();
    const joining = connector.join(ring, { signal: never });
    await (await service.connection()).frame("hello");
    await clock.advance(10_250);
    const second = await service.connection();
    expect(await second.frame("hello")).toMatchObject({ token: "device-token" });
    second.send(welcomeFrame());
    await joining;
  });

  it("ends when its time is over", async () => {
    const { clock, connector, ring, retries } = setUp();
    service.setOpen(false);
    const stop = new AbortController();
    const joining = connector.join(ring, { signal: stop.signal });
    await retries.next();
    stop.abort();
    await expect(joining).rejects.toMatchObject({ kind: "unreachable" });
    expect(clock.pendingTimers).toBe(0);
    await expect(connector.join(ring, { signal: stop.signal })).rejects.toMatchObject({ kind: "unreachable" });
  });

  it.each([
    ["no address", { url: undefined }],
    ["no token", { token: undefined }],
    ["an address without TLS on another machine", { url: "ws://rooms.example.com/v1/connect" }],
    ["an address of another kind", { url: "https://rooms.example.com" }],
  ])("is not tried with %s", async (_what, changes) => {
    const { connector, ring } = setUp();
    const unusable = {
      ...ring,
      join: { provider: "room", room: "room-1", token: "t", url: ring.join.url, ...changes },
    };
    await expect(connector.join(unusable as typeof ring, { signal: never })).rejects.toMatchObject({
      kind: "unsupported",
    });
  });

  it("is refused by a service of another protocol", async () => {
    const other = await startRoomDouble("something.else");
    const { connector, rungTo } = setUp();
    const joining = connector.join(rungTo(other.url), { signal: AbortSignal.timeout(200) });
    await expect(joining).rejects.toMatchObject({ name: "JoinError" });
    await other.close();
  });

  it.each([
    ["another seat", { seat: "mesh" }],
    ["another version", { v: 2 }],
    ["a receipt for what was never sent", { recv: 1 }],
  ])("fails on a welcome with %s", async (_what, changes) => {
    const { connector, ring } = setUp();
    const joining = connector.join(ring, { signal: never });
    const connection = await service.connection();
    connection.send(welcomeFrame(changes));
    await expect(joining).rejects.toMatchObject({ kind: "unsupported" });
    expect(await connection.closed).toBe(ROOM_CLOSE.badFrame);
  });

  it("takes no frame before the welcome", async () => {
    const { connector, ring } = setUp();
    const joining = connector.join(ring, { signal: never });
    (await service.connection()).send(taskFrame());
    await expect(joining).rejects.toMatchObject({ kind: "unsupported" });
  });
});

describe("in the room", () => {
  it("hands on the task and the cancel, each acknowledged", async () => {
    const { connection, events } = await seated();
    connection.send({ type: "peer", seq: 1, state: "joined" });
    connection.send(taskFrame({ seq: 2 }));
    connection.send({ type: "cancel", seq: 3, id: "ask_1", reason: "not needed" });
    expect(await events.next()).toEqual({ type: "envelope", envelope: task });
    expect(await events.next()).toEqual({
      type: "envelope",
      envelope: { type: "cancel", id: "ask_1", reason: "not needed" },
    });
    for (const seq of [1, 2, 3]) expect(await connection.frame("ack")).toEqual({ type: "ack", seq });
  });

  it("acknowledges a repeat and does not hand it on", async () => {
    const { connection, events } = await seated();
    connection.send(taskFrame());
    connection.send(taskFrame());
    connection.send({ type: "cancel", seq: 2, id: "ask_1", reason: "x" });
    expect(await events.next()).toMatchObject({ envelope: { type: "task" } });
    expect(await events.next()).toMatchObject({ envelope: { type: "cancel" } });
    for (const seq of [1, 1, 2]) expect(await connection.frame("ack")).toEqual({ type: "ack", seq });
  });

  it.each([
    ["a gap", { ...taskFrame({ seq: 2 }) }],
    ["a frame that only a device sends", { type: "accepted", seq: 1, id: "ask_1" }],
    ["a frame that is malformed", { type: "task", seq: 1 }],
    ["a frame of an unknown type", { type: "surprise" }],
    ["a receipt for what was never sent", { type: "ack", seq: 7 }],
  ])("is over when the service sends %s", async (_what, frame) => {
    const { connection, events, ended } = await seated();
    connection.send(frame);
    expect(await events.next()).toMatchObject({ type: "closed", reason: "protocol" });
    expect(await connection.closed).toBe(ROOM_CLOSE.badFrame);
    await ended;
  });

  it("is over when the service sends no JSON", async () => {
    const { connection, events } = await seated();
    connection.sendRaw("hello");
    expect(await events.next()).toMatchObject({ type: "closed", reason: "protocol" });
  });

  it("ignores extensions, unknown fields and refused frames", async () => {
    const { connection, events, warnings } = await seated();
    connection.send({ type: "x-weather", mood: "fine" });
    connection.send({ type: "error", code: "too_large", message: "no", temporary: false, ref_seq: 1 });
    connection.send(taskFrame({ added: "later" }));
    expect(await events.next()).toEqual({ type: "envelope", envelope: task });
    expect(warnings).toEqual([{ code: "too_large", detail: "no" }]);
  });

  it("answers a ping", async () => {
    const { connection } = await seated();
    connection.send({ type: "ping", n: 5 });
    expect(await connection.frame("pong")).toEqual({ type: "pong", n: 5 });
  });

  it("numbers what the device sends and knows when the service has it", async () => {
    const { connection, room } = await seated();
    expect(room.send({ type: "accepted", id: "ask_1" })).toBe("queued");
    expect(room.send({ type: "reply", id: "ask_1", outcome: "done" })).toBe("queued");
    expect(await connection.frame("accepted")).toEqual({ type: "accepted", id: "ask_1", seq: 1 });
    expect(await connection.frame("reply")).toEqual({ type: "reply", id: "ask_1", outcome: "done", seq: 2 });
    let known: boolean | undefined;
    const acked = room.acked(never).then((value) => {
      known = value;
    });
    connection.send({ type: "ack", seq: 1 });
    connection.send({ type: "ping" });
    await connection.frame("pong");
    expect(known).toBeUndefined();
    connection.send({ type: "ack", seq: 2 });
    await acked;
    expect(known).toBe(true);
    expect(await room.acked(never)).toBe(true);
  });

  it("stops waiting for a receipt when told to", async () => {
    const { room } = await seated();
    room.send({ type: "accepted", id: "ask_1" });
    const stop = new AbortController();
    const acked = room.acked(stop.signal);
    stop.abort();
    expect(await acked).toBe(false);
  });

  it("takes nothing over the service's frame limit", async () => {
    const { connection, room } = await seated({ limits: { frame: 1000, idle_s: 15, dead_s: 10, grace_s: 15 } });
    const bytesOf = (data: string) => JSON.stringify({ type: "reply", id: "ask_1", outcome: "done", data }).length;
    const fill = "x".repeat(room.maxEnvelopeBytes - bytesOf(""));
    expect(room.send({ type: "reply", id: "ask_1", outcome: "done", data: `${fill}x` })).toBe("too_large");
    expect(room.send({ type: "reply", id: "ask_1", outcome: "done", data: fill })).toBe("queued");
    const frame = await connection.frame("reply");
    expect(frame.seq).toBe(1);
    expect(JSON.stringify(frame).length).toBeLessThanOrEqual(1000);
  });

  describe.each([
    [
      "a frame",
      (connection: DoubleConnection) => connection.send({ type: "cancel", seq: 65, id: "ask_1", reason: "x" }),
    ],
    ["a lost link", (connection: DoubleConnection) => connection.cut()],
  ])("when nobody reads, with %s on top", (_what, onTop) => {
    it("is over", async () => {
      const { clock, connector, ring } = setUp();
      const joining = connector.join(ring, { signal: never });
      const connection = await service.connection();
      connection.send(welcomeFrame());
      const room = await joining;
      for (let seq = 1; seq <= 64; seq++) connection.send({ type: "cancel", seq, id: "ask_1", reason: "x" });
      for (let seq = 1; seq <= 64; seq++) await connection.frame("ack");
      onTop(connection);
      while (room.send({ type: "progress", id: "ask_1" }) !== "ended") await clock.advance(0);
      const events: DeviceRoomEvent[] = [];
      for await (const event of room.events) events.push(event);
      expect(events).toHaveLength(65);
      expect(events.at(-1)).toMatchObject({ type: "closed", reason: "protocol" });
      expect(clock.pendingTimers).toBe(0);
    });
  });
});

describe("a link that is lost", () => {
  it("comes back with the resume key and what it has seen, and not with the token", async () => {
    const seat = await seated();
    seat.connection.send(taskFrame());
    await seat.events.next();
    const { next, hello } = await dropAndComeBack(seat);
    expect(hello).toEqual({
      type: "hello",
      v: 1,
      client: { name: "leafmesh-device", version: "0.1.0" },
      resume: { key: "key-1", recv: 1 },
    });
    next.send(welcomeFrame({ resume_key: "key-2" }));
    expect(await seat.events.next()).toEqual({ type: "back" });
    next.cut();
    expect(await seat.events.next()).toEqual({ type: "away" });
    await seat.clock.advance(250);
    expect(await (await service.connection()).frame("hello")).toMatchObject({ resume: { key: "key-2", recv: 1 } });
  });

  it("sends again what the service has not seen, and nothing else", async () => {
    const seat = await seated();
    seat.room.send({ type: "accepted", id: "ask_1" });
    await seat.connection.frame("accepted");
    const { next } = await dropAndComeBack(seat);
    seat.room.send({ type: "reply", id: "ask_1", outcome: "done" });
    next.send(welcomeFrame({ recv: 1 }));
    expect(await next.frame("reply")).toMatchObject({ seq: 2 });
    next.send({ type: "ack", seq: 2 });
    expect(await seat.room.acked(never)).toBe(true);
    expect(next.rest()).toEqual([]);
  });

  it("drops progress meanwhile, which nobody needs late", async () => {
    const seat = await seated();
    const { next } = await dropAndComeBack(seat);
    expect(seat.room.send({ type: "progress", id: "ask_1", pct: 10 })).toBe("dropped");
    expect(seat.room.send({ type: "accepted", id: "ask_1" })).toBe("queued");
    next.send(welcomeFrame());
    expect(await next.frame("accepted")).toMatchObject({ seq: 1 });
  });

  it("is noticed when nothing is heard, without a word from the socket", async () => {
    const seat = await seated();
    await seat.clock.advance(15_000);
    await seat.connection.frame("ping");
    await seat.clock.advance(10_000);
    expect(await seat.events.next()).toEqual({ type: "away" });
    await seat.clock.advance(250);
    expect(await (await service.connection()).frame("hello")).toHaveProperty("resume");
  });

  it.each([1001, 1011, 1012, 1013, ROOM_CLOSE.internal, ROOM_CLOSE.shuttingDown, ROOM_CLOSE.tooSlow, ROOM_CLOSE.rate])(
    "comes back after the service closed with %i",
    async (code) => {
      const seat = await seated();
      seat.connection.send({ type: "closing", reason: "shutdown" });
      seat.connection.close(code);
      expect(await seat.events.next()).toEqual({ type: "away" });
      await seat.clock.advance(250);
      expect(await (await service.connection()).frame("hello")).toHaveProperty("resume");
    },
  );

  it.each([
    ["closed", ROOM_CLOSE.finished],
    ["closed", ROOM_CLOSE.closed],
    ["replaced", ROOM_CLOSE.replaced],
    ["expired", ROOM_CLOSE.expired],
    ["protocol", ROOM_CLOSE.badFrame],
    ["refused", ROOM_CLOSE.tokenRefused],
    ["refused", ROOM_CLOSE.seatTaken],
    ["lost", ROOM_CLOSE.noSuchRoom],
    ["protocol", ROOM_CLOSE.frameTooLarge],
  ])("is the room's end, %s, when the service closed with %i", async (reason, code) => {
    const seat = await seated();
    seat.connection.close(code, "because");
    expect(await seat.events.next()).toEqual({ type: "closed", reason, detail: `because (${code})` });
    await seat.ended;
    expect(seat.clock.pendingTimers).toBe(0);
    expect(seat.room.send({ type: "accepted", id: "ask_1" })).toBe("ended");
  });

  it.each(["closed", "expired", "replaced"])("believes the word `closing: %s` without waiting", async (reason) => {
    const seat = await seated();
    seat.room.send({ type: "accepted", id: "ask_1" });
    const acked = seat.room.acked(never);
    seat.connection.send({ type: "closing", reason });
    expect(await seat.events.next()).toMatchObject({ type: "closed", reason });
    expect(await acked).toBe(false);
    await seat.ended;
  });

  it("is the room's end when it cannot be brought back in time", async () => {
    const seat = await seated();
    service.setOpen(false);
    seat.connection.cut();
    expect(await seat.events.next()).toEqual({ type: "away" });
    let closed: DeviceRoomEvent | undefined;
    void seat.events.next().then((event) => {
      closed = event;
    });
    let spentMs = 0;
    while (!closed && spentMs < 120_000) {
      await seat.clock.advance(50);
      spentMs += 50;
    }
    expect(closed).toMatchObject({ type: "closed", reason: "lost" });
    expect(spentMs).toBeLessThanOrEqual(60_000);
    expect(spentMs).toBeGreaterThan(15_000);
    await seat.ended;
  });

  it("is the room's end when the service gives the seat back with a frame count of its own", async () => {
    const seat = await seated();
    const { next } = await dropAndComeBack(seat);
    next.send(welcomeFrame({ recv: 3 }));
    expect(await seat.events.next()).toMatchObject({ type: "closed", reason: "protocol" });
  });
});

describe("leaving", () => {
  it("says goodbye before it closes", async () => {
    const { connection, room, ended, clock } = await seated();
    await room.leave("done");
    expect(await connection.frame("leave")).toEqual({ type: "leave", reason: "done" });
    expect(await connection.closed).toBe(ROOM_CLOSE.finished);
    await ended;
    await room.leave("again");
    expect(clock.pendingTimers).toBe(0);
  });

  it("does not wait for a service that does not answer", async () => {
    const { clock, rungTo } = setUp();
    const mute = muteWebSocket();
    const connector = leafmeshConnector({ clock, WebSocket: mute.WebSocket });
    const joining = connector.join(rungTo("wss://rooms.example.com/v1/connect"), { signal: never });
    mute.open();
    mute.say(welcomeFrame());
    const room = await joining;
    const leaving = room.leave("done");
    expect(mute.said().at(-1)).toEqual({ type: "leave", reason: "done" });
    await clock.advance(1500);
    await leaving;
    expect(clock.pendingTimers).toBe(0);
  });

  it("does not wait for a link that is down", async () => {
    const seat = await seated();
    seat.connection.cut();
    await seat.events.next();
    await seat.room.leave("done");
    await seat.ended;
    expect(seat.clock.pendingTimers).toBe(0);
  });
});

describe("refusing", () => {
  it("says that it is not allowed, takes no seat, and resolves when the service closes", async () => {
    const { connector, ring } = setUp();
    const refusing = connector.refuse(ring, never);
    const connection = await service.connection();
    expect(await connection.frame("hello")).toMatchObject({ token: "device-token", refuse: "not_allowed" });
    connection.close(ROOM_CLOSE.finished, "refused");
    await refusing;
  });

  it.each([
    ["over", ROOM_CLOSE.tokenRefused],
    ["seat_taken", ROOM_CLOSE.seatTaken],
    ["unreachable", ROOM_CLOSE.internal],
  ])("fails as %s when the service closes with %i", async (kind, code) => {
    const { connector, ring } = setUp();
    const refusing = connector.refuse(ring, never);
    (await service.connection()).close(code);
    await expect(refusing).rejects.toMatchObject({ kind });
  });

  it("ends when its time is over", async () => {
    const { connector, ring } = setUp();
    const stop = new AbortController();
    const refusing = connector.refuse(ring, stop.signal);
    const connection = await service.connection();
    await connection.frame("hello");
    stop.abort();
    await expect(refusing).rejects.toMatchObject({ kind: "unreachable" });
    await expect(connector.refuse(ring, stop.signal)).rejects.toMatchObject({ kind: "unreachable" });
  });
});

/** A WebSocket whose other side never closes. */
function muteWebSocket() {
  const sent: string[] = [];
  const listeners: Record<string, (event: { data: unknown; code: number; reason: string }) => void> = {};
  const fire = (type: string, data?: unknown): void => listeners[type]?.({ data, code: 1006, reason: "" });
  class MuteWebSocket implements WebSocketLike {
    readonly protocol: string;

    constructor(_url: string, protocols: string) {
      this.protocol = protocols;
    }

    send(data: string): void {
      sent.push(data);
    }

    close(): void {}

    addEventListener(type: string, listener: (event: { data: unknown; code: number; reason: string }) => void): void {
      listeners[type] = listener;
    }
  }
  return {
    WebSocket: MuteWebSocket,
    open: () => fire("open"),
    say: (frame: object) => fire("message", JSON.stringify(frame)),
    said: () => sent.map((text): unknown => JSON.parse(text)),
  };
}
