import { Mailbox } from "@leafmesh/testkit/suites";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RoomDouble, startRoomDouble } from "../testing/room-double.ts";
import { openSocket, runtimeWebSocket, type SocketOptions } from "./socket.ts";

let service: RoomDouble;
beforeEach(async () => {
  service = await startRoomDouble();
});
afterEach(() => service.close());

type Call = { open: true } | { text: string } | { closed: number; reason: string };

function connect(changes: Partial<SocketOptions> = {}) {
  const calls = new Mailbox<Call>();
  const socket = openSocket(
    {
      WebSocket: runtimeWebSocket(),
      url: service.url,
      subprotocol: "leafmesh.room.v1",
      maxBytes: 100,
      badFrameCode: 4400,
      ...changes,
    },
    {
      open: () => calls.put({ open: true }),
      text: (text) => calls.put({ text }),
      closed: (closed, reason) => calls.put({ closed, reason }),
    },
  );
  return { calls, socket };
}

describe("openSocket", () => {
  it("opens, carries text both ways, and tells the end", async () => {
    const { calls, socket } = connect();
    const connection = await service.connection();
    expect(await calls.next()).toEqual({ open: true });
    expect(socket.send('{"type":"hello"}')).toBe(true);
    expect(await connection.frame("hello")).toEqual({ type: "hello" });
    connection.sendRaw("hi");
    expect(await calls.next()).toEqual({ text: "hi" });
    connection.close(4000, "closed");
    expect(await calls.next()).toEqual({ closed: 4000, reason: "closed" });
    expect(socket.send("late")).toBe(false);
  });

  it("tells 1006 when the connection is cut or refused", async () => {
    const { calls } = connect();
    const connection = await service.connection();
    await calls.next();
    connection.cut();
    expect(await calls.next()).toMatchObject({ closed: 1006 });
    service.setOpen(false);
    expect(await connect().calls.next()).toMatchObject({ closed: 1006 });
  });

  it("tells an address that is none, after it returned", async () => {
    const { calls } = connect({ url: "http//nothing" });
    expect(calls.takeAll()).toEqual([]);
    expect(await calls.next()).toMatchObject({ closed: 1006 });
  });

  it.each<[string, string | Buffer, string]>([
    ["is not text", Buffer.from("binary"), "a frame was not text"],
    ["is too large", "ü".repeat(51), "a frame was over 100 bytes"],
  ])("ends when a frame %s", async (_what, frame, reason) => {
    const { calls } = connect();
    const connection = await service.connection();
    await calls.next();
    connection.sendRaw(frame);
    expect(await calls.next()).toEqual({ closed: 4400, reason });
    expect(await connection.closed).toBe(4400);
  });

  it("says nothing more once abandoned", async () => {
    const { calls, socket } = connect();
    const connection = await service.connection();
    await calls.next();
    socket.abandon(1000, "bye");
    connection.sendRaw("late");
    expect(await connection.closed).toBe(1000);
    expect(calls.takeAll()).toEqual([]);
    expect(socket.send("late")).toBe(false);
  });
});
