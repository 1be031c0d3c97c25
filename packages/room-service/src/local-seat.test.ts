import { Secret } from "@leafmesh/protocol";
import { describe, expect, it, onTestFinished } from "vitest";
import { TestSocket } from "./conformance/test-socket.ts";
import { deviceFrame } from "./conformance/workbench.ts";
import type { OutboundFrame } from "./room/frames.ts";
import { type ServeRoomsOptions, serveRooms } from "./serve.ts";

const task = {
  type: "task",
  id: "ask_1",
  action: "battery.read",
  inputs: { unit: "percent" },
  budget_ms: 60_000,
} as const;

async function openRoom(options: Partial<ServeRoomsOptions> = {}, lifetimeMs = 60_000) {
  const server = await serveRooms({ host: "127.0.0.1", port: 0, ...options });
  onTestFinished(() => server.close());
  const frames: OutboundFrame[] = [];
  const waiting = new Set<() => void>();
  const room = await server.service.openLocal({
    lifetimeMs,
    joinWithinMs: 30_000,
    approval: "ask",
    onFrame(frame) {
      frames.push(frame);
      for (const wake of waiting) wake();
    },
  });
  const until = async (type: string, state?: string): Promise<OutboundFrame> => {
    for (;;) {
      const found = frames.find(
        (frame) => frame.type === type && (!state || ("state" in frame && frame.state === state)),
      );
      if (found) return found;
      await new Promise<void>((resolve) => waiting.add(resolve));
    }
  };
  const join = async (): Promise<TestSocket> => {
    const socket = await TestSocket.open(room.connectUrl);
    socket.hello({ token: room.deviceToken });
    await socket.next("welcome");
    return socket;
  };
  return { server, room, frames, until, join };
}

describe("a mesh in the service's own process", () => {
  it("meets a device over a socket", async () => {
    const { room, frames, until, join } = await openRoom();
    const device = await join();
    await until("peer", "joined");
    expect(room.send(task)).toBe(1);
    expect(await device.next("task")).toEqual({ ...task, seq: 2 });
    device.send(deviceFrame("accepted", 1, { id: "ask_1" }));
    device.send(deviceFrame("reply", 2, { id: "ask_1", data: 71 }));
    expect(await until("reply")).toEqual({ type: "reply", seq: 3, id: "ask_1", outcome: "done", data: 71 });
    expect(room.status().task).toEqual({ handed: true, acked: true, replied: true });
    expect(room.send({ type: "cancel", id: "ask_1", reason: "over" })).toBe(2);
    await device.next("cancel");
    room.close();
    expect((await device.closed()).code).toBe(4000);
    expect(frames.at(-1)).toEqual({ type: "closing", reason: "closed" });
    expect(room.send(task)).toBeUndefined();
    room.close();
  });

  it("hears of a second task, of a loss and of the end", async () => {
    const { room, until, join } = await openRoom({ limits: { grace_s: 0.2 } }, 1000);
    const device = await join();
    await until("peer", "joined");
    room.send(task);
    await device.next("task");
    room.send({ ...task, id: "ask_2" });
    expect(await until("error")).toMatchObject({ code: "second_task", ref_seq: 2 });
    await device.drop();
    await until("peer", "away");
    expect(await until("peer", "left")).toMatchObject({ reason: "lost", handed_seq: 1 });
    expect(await until("closing")).toEqual({ type: "closing", reason: "expired" });
  });

  it("may answer from inside the call that tells it", async () => {
    const server = await serveRooms({ host: "127.0.0.1", port: 0 });
    onTestFinished(() => server.close());
    const room = await server.service.openLocal({
      lifetimeMs: 60_000,
      joinWithinMs: 30_000,
      onFrame(frame) {
        if (frame.type === "peer") {
          room.send(task);
          room.send({ type: "cancel", id: "ask_1", reason: "changed my mind" });
        }
      },
    });
    const socket = await TestSocket.open(room.connectUrl);
    socket.hello({ token: room.deviceToken });
    await socket.next("cancel");
    expect(socket.received.map(({ type }) => type)).toEqual(["welcome", "peer", "task", "cancel"]);
  });

  it("has rooms that no API key can see", async () => {
    const { server, room } = await openRoom({ apiKeys: [new Secret("some-key")] });
    const answer = await fetch(`${server.url}/v1/rooms/${room.roomId}`, {
      headers: { authorization: "Bearer some-key" },
    });
    expect(answer.status).toBe(404);
  });

  it("is told why no room can be had", async () => {
    const { server } = await openRoom({ bounds: { rooms: 1 } });
    const request = { lifetimeMs: 1000, joinWithinMs: 1000, onFrame: () => {} };
    await expect(server.service.openLocal(request)).rejects.toMatchObject({ name: "RoomServiceError", code: "full" });
    await server.close();
    await expect(server.service.openLocal(request)).rejects.toMatchObject({ code: "closed" });
  });
});
