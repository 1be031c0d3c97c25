/** A device that speaks the room protocol's wire, and a reader of a room's events, for tests. */
import { once } from "node:events";
import { ROOM_SUBPROTOCOL, type ServiceFrame, serviceFrameSchema } from "@leafmesh/protocol";
import { WebSocket } from "ws";
import type { Room, RoomEvent } from "../src/contract.ts";

export interface TestDevice {
  readonly frames: readonly ServiceFrame[];
  /** The first frame of this type, now or when it comes. */
  frame<Type extends ServiceFrame["type"]>(type: Type): Promise<Extract<ServiceFrame, { type: Type }>>;
  /** Numbers it and sends it. */
  send(frame: Readonly<Record<string, unknown>>): void;
  sendText(text: string): void;
  /** Without a word, as when the network is gone. */
  drop(): void;
  /** The code that the socket was closed with. */
  closed(): Promise<number>;
}

/** Connects with what the ring would carry; `hello` adds to or replaces the fields of the hello frame. */
export async function joinAsDevice(room: Room, hello: Readonly<Record<string, unknown>> = {}): Promise<TestDevice> {
  const { url = "", token = "" } = room.join;
  const socket = new WebSocket(url, ROOM_SUBPROTOCOL, { perMessageDeflate: false });
  const frames: ServiceFrame[] = [];
  const watchers = new Set<() => void>();
  let seq = 0;
  let code: number | undefined;
  socket.on("message", (data) => {
    const frame = serviceFrameSchema.parse(JSON.parse(data.toString()));
    frames.push(frame);
    if ("seq" in frame && frame.type !== "ack") socket.send(JSON.stringify({ type: "ack", seq: frame.seq }));
    if (frame.type === "ping") socket.send(JSON.stringify({ ...frame, type: "pong" }));
    for (const look of watchers) look();
  });
  const end = new Promise<number>((resolve) => {
    socket.on("close", (closeCode) => {
      code = closeCode;
      resolve(closeCode);
    });
  });
  socket.on("error", () => {});
  await once(socket, "open");
  socket.send(JSON.stringify({ type: "hello", v: 1, token, ...hello }));
  return {
    frames,
    frame: (type) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = frames.find(
            (frame): frame is Extract<ServiceFrame, { type: typeof type }> => frame.type === type,
          );
          if (found) resolve(found);
        };
        watchers.add(look);
        look();
      }),
    send: (frame) => socket.send(JSON.stringify({ ...frame, seq: ++seq })),
    sendText: (text) => socket.send(text),
    drop: () => socket.terminate(),
    closed: () => (code === undefined ? end : Promise.resolve(code)),
  };
}

export interface ReadRoom {
  /** Everything so far. */
  readonly events: readonly RoomEvent[];
  event<Type extends RoomEvent["type"]>(type: Type): Promise<Extract<RoomEvent, { type: Type }>>;
  /** Resolves when the room's events have ended. */
  readonly end: Promise<void>;
}

export function readRoom(room: Room): ReadRoom {
  const events: RoomEvent[] = [];
  const watchers = new Set<() => void>();
  const end = (async () => {
    for await (const event of room.events) {
      events.push(event);
      for (const look of watchers) look();
    }
  })();
  return {
    events,
    end,
    event: (type) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = events.find((event): event is Extract<RoomEvent, { type: typeof type }> => event.type === type);
          if (found) resolve(found);
        };
        watchers.add(look);
        look();
      }),
  };
}
