/** A mesh's side of rooms in the real room service: opens them, writes rings for them, sends tasks. */
import type { CancelEnvelope, Ring, TaskEnvelope } from "@leafmesh/protocol";
import { type OutboundFrame, type RoomServer, type RoomServiceOptions, serveRooms } from "@leafmesh/room-service";
import { Mailbox } from "@leafmesh/testkit/suites";
import { ringFor } from "./rings.ts";

export interface MeshRoom {
  /** Leads to this room. Written at the time that the mesh was given. */
  readonly ring: Ring;
  /** What the room tells the mesh. */
  readonly frames: Mailbox<OutboundFrame>;
  /** The next frame of this type. */
  frame<Type extends OutboundFrame["type"]>(type: Type): Promise<Extract<OutboundFrame, { type: Type }>>;
  send(envelope: TaskEnvelope | CancelEnvelope): void;
  task(changes?: Partial<TaskEnvelope>): void;
  close(): void;
}

export interface Mesh {
  readonly server: RoomServer;
  open(changes?: Partial<Ring>): Promise<MeshRoom>;
  close(): Promise<void>;
}

export async function startMesh(nowMs: () => number, options: Partial<RoomServiceOptions> = {}): Promise<Mesh> {
  const server = await serveRooms({ ...options, host: "127.0.0.1", port: 0 });
  return {
    server,
    async open(changes = {}) {
      const frames = new Mailbox<OutboundFrame>();
      const room = await server.service.openLocal({
        lifetimeMs: 120_000,
        joinWithinMs: 60_000,
        onFrame: (frame) => frames.put(frame),
      });
      const join = { provider: "leafmesh", url: room.connectUrl, room: room.roomId, token: room.deviceToken };
      const ring = ringFor(nowMs(), { join, ...changes });
      return {
        ring,
        frames,
        frame: <Type extends OutboundFrame["type"]>(type: Type) =>
          frames.next((frame): frame is Extract<OutboundFrame, { type: Type }> => frame.type === type),
        send: (envelope) => void room.send(envelope),
        task(task = {}) {
          const action = { action: "battery.read", inputs: {}, budget_ms: 60_000 };
          room.send({ type: "task", id: ring.ask, ...action, ...task });
        },
        close: () => room.close(),
      };
    },
    close: () => server.close(),
  };
}
