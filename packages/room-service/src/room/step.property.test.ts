/**
 * Two well-behaved clients over links that break at any moment. Whatever the order of sending, delivering, dropping and
 * resuming: each side sees what the other sent, in order and once, and nothing that the service acknowledged is lost.
 */
import type { RoomSeat } from "@leafmesh/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cancel, createTestRoom, progress, type TestRoom, task } from "../../testing/test-room.ts";
import type { OutboundFrame, RelayedFrame, SeatFrame } from "./frames.ts";

const GRACE_MS = 15_000;

/** What a client library does: numbers, acknowledges, drops repeats, sends again what the service has not stored. */
interface Client {
  link: number | undefined;
  key: string;
  /** In flight on the present link. */
  toService: SeatFrame[];
  toClient: OutboundFrame[];
  paused: boolean;
  over: boolean;
  sent: RelayedFrame[];
  acknowledgedByService: number;
  received: number;
  /** What the application was given: relayed frames and nothing else. */
  seen: RelayedFrame[];
  peerFrames: Extract<OutboundFrame, { type: "peer" }>[];
}

function createClient(): Client {
  return {
    link: undefined,
    key: "",
    toService: [],
    toClient: [],
    paused: false,
    over: false,
    sent: [],
    acknowledgedByService: 0,
    received: 0,
    seen: [],
    peerFrames: [],
  };
}

class World {
  readonly room: TestRoom = createTestRoom({ buffer_frames: 6 });
  readonly clients: Record<RoomSeat, Client> = { mesh: createClient(), device: createClient() };
  #link = 0;
  #effects = 0;

  constructor() {
    for (const seat of ["mesh", "device"] as const) {
      this.clients[seat].link = ++this.#link;
      this.room.join(seat, this.#link);
      this.#spread();
    }
  }

  send(seat: RoomSeat): void {
    const client = this.clients[seat];
    const seq = client.sent.length + 1;
    if (seat === "device" && client.seen.length === 0) return;
    const frame = seat === "device" ? progress(seq, `note ${seq}`) : seq === 1 ? task(1) : cancel(seq, `reason ${seq}`);
    client.sent.push(frame);
    if (client.link !== undefined) client.toService.push(frame);
  }

  reachService(seat: RoomSeat): boolean {
    const client = this.clients[seat];
    if (client.link === undefined || client.paused) return false;
    const frame = client.toService.shift();
    if (!frame) return false;
    this.room.frame(client.link, frame);
    this.#spread();
    return true;
  }

  reachClient(seat: RoomSeat): boolean {
    const client = this.clients[seat];
    const frame = client.toClient.shift();
    if (!frame) return false;
    switch (frame.type) {
      case "welcome":
        client.key = frame.resume_key;
        client.acknowledgedByService = frame.recv;
        client.toService.push(...client.sent.slice(frame.recv));
        break;
      case "ack":
        client.acknowledgedByService = Math.max(client.acknowledgedByService, frame.seq);
        break;
      case "peer":
      case "task":
      case "cancel":
      case "accepted":
      case "progress":
      case "reply":
        expect(frame.seq).toBeLessThanOrEqual(client.received + 1);
        if (frame.seq === client.received + 1) {
          client.received = frame.seq;
          if (frame.type === "peer") client.peerFrames.push(frame);
          else client.seen.push(frame as RelayedFrame);
        }
        client.toService.push({ type: "ack", seq: client.received });
        break;
      default:
        throw new Error(`unexpected ${frame.type}`);
    }
    return true;
  }

  drop(seat: RoomSeat, noticed: boolean): void {
    const client = this.clients[seat];
    if (client.link === undefined) return;
    // A welcome that is lost takes the only valid key with it: that client is not under test here.
    if (client.toClient.some((frame) => frame.type === "welcome")) return;
    const { link } = client;
    client.link = undefined;
    client.toClient = [];
    client.toService = [];
    client.paused = false;
    if (noticed) this.room.step({ type: "dropped", link });
    this.#spread();
  }

  resume(seat: RoomSeat): void {
    const client = this.clients[seat];
    if (client.link !== undefined || client.over) return;
    client.link = ++this.#link;
    this.room.resume(client.link, client.key, client.received);
    this.#spread();
  }

  /** Both sides connected and everything delivered. */
  settle(): void {
    for (let round = 0; round < 200; round++) {
      let moved = false;
      for (const seat of ["mesh", "device"] as const) {
        this.resume(seat);
        while (this.reachClient(seat)) moved = true;
        while (this.reachService(seat)) moved = true;
      }
      if (!moved) return;
    }
    throw new Error("does not come to rest");
  }

  /** Carries out what the room decided since the last call. */
  #spread(): void {
    for (; this.#effects < this.room.effects.length; this.#effects++) {
      const effect = this.room.effects[this.#effects];
      if (!effect || effect.type === "ended") continue;
      const client = Object.values(this.clients).find((candidate) => candidate.link === effect.link);
      if (!client) continue;
      if (effect.type === "send") client.toClient.push(effect.frame);
      else if (effect.type === "close") {
        client.link = undefined;
        client.over = true;
      } else client.paused = effect.type === "pause";
    }
  }
}

const seat = fc.constantFrom<RoomSeat>("mesh", "device");
const command = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("send" as const), seat }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("reachService" as const), seat }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("reachClient" as const), seat }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("drop" as const), seat, noticed: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("resume" as const), seat }) },
);

function play(world: World, commands: readonly (typeof command extends fc.Arbitrary<infer One> ? One : never)[]): void {
  for (const one of commands) {
    if (one.do === "drop") world.drop(one.seat, one.noticed);
    else world[one.do](one.seat);
  }
}

const bodies = (frames: readonly RelayedFrame[]) => frames.map(({ seq: _seq, ...body }) => body);

describe("any interleaving of sending, delivering, dropping and resuming", () => {
  it("delivers each frame once and in order", () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 120 }), (commands) => {
        const world = new World();
        play(world, commands);
        const { mesh, device } = world.clients;
        for (const [from, to] of [
          [mesh, device],
          [device, mesh],
        ] as const) {
          expect(bodies(to.seen)).toEqual(bodies(from.sent.slice(0, to.seen.length)));
        }
        world.settle();
        expect(bodies(device.seen)).toEqual(bodies(mesh.sent));
        expect(bodies(mesh.seen)).toEqual(bodies(device.sent));
        expect(mesh.acknowledgedByService).toBe(mesh.sent.length);
        expect(world.room.state.seats.mesh.outbox.frames).toEqual([]);
        expect(world.room.state.seats.device.outbox.frames).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  it("never claims less than what a lost device had, nor more than what it acknowledged", () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
        const world = new World();
        play(world, commands);
        const { mesh, device } = world.clients;
        while (world.reachClient("device"));
        const { link } = world.room.state.seats.device;
        if (link !== undefined) world.room.step({ type: "dropped", link });
        world.room.advance(GRACE_MS);
        const seenByDevice = device.seen.length;
        const left = world.room.state.seats.mesh.outbox.frames.find(
          ({ body }) => body.type === "peer" && body.state === "left",
        );
        const body = left?.body;
        if (body?.type !== "peer") throw new Error("no left");
        expect(body.handed_seq).toBeGreaterThanOrEqual(seenByDevice);
        expect(body.acked_seq).toBeLessThanOrEqual(seenByDevice);
        expect(body.handed_seq).toBeLessThanOrEqual(mesh.sent.length);
      }),
      { numRuns: 300 },
    );
  });

  it("keeps every outbox within its bound plus what one side may have in flight", () => {
    fc.assert(
      fc.property(fc.array(command, { maxLength: 200 }), (commands) => {
        const world = new World();
        play(world, commands);
        for (const state of Object.values(world.room.state.seats)) {
          const relayed = state.outbox.frames.filter(({ body }) => body.type !== "peer");
          expect(relayed.length).toBeLessThanOrEqual(6);
        }
      }),
      { numRuns: 200 },
    );
  });
});
