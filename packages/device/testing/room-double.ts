/** A room service that does what a test tells it, frame by frame: for faults that a correct service never commits. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ROOM_SUBPROTOCOL } from "@leafmesh/protocol";
import { Mailbox } from "@leafmesh/testkit/suites";
import { type WebSocket, WebSocketServer } from "ws";

export interface Frame {
  readonly type: string;
  readonly [field: string]: unknown;
}

export interface DoubleConnection {
  /** The client's next frame of this type. */
  frame(type: string): Promise<Frame>;
  /** Frames that came and were not waited for. */
  rest(): Frame[];
  send(frame: Frame): void;
  sendRaw(data: string | Buffer): void;
  close(code: number, reason?: string): void;
  /** Cuts the connection without a close frame. */
  cut(): void;
  /** The client's close code. */
  readonly closed: Promise<number>;
}

export interface RoomDouble {
  readonly url: string;
  /** The next connection that a client opens. */
  connection(): Promise<DoubleConnection>;
  /** Takes connections again, or refuses them at the HTTP upgrade. */
  setOpen(open: boolean): void;
  /** How many connections were refused. */
  readonly refused: number;
  close(): Promise<void>;
}

export async function startRoomDouble(subprotocol: string = ROOM_SUBPROTOCOL): Promise<RoomDouble> {
  const connections = new Mailbox<DoubleConnection>();
  const sockets = new Set<WebSocket>();
  const webSockets = new WebSocketServer({ noServer: true, handleProtocols: () => subprotocol });
  const server = createServer();
  let open = true;
  let refused = 0;
  server.on("upgrade", (request, socket, head) => {
    if (!open) {
      refused += 1;
      socket.end("HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\r\n");
      return;
    }
    webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      sockets.add(webSocket);
      connections.put(connectionOf(webSocket));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `ws://127.0.0.1:${port}/v1/connect`,
    connection: () => connections.next(),
    setOpen(value) {
      open = value;
    },
    get refused() {
      return refused;
    },
    async close() {
      for (const socket of sockets) socket.terminate();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function connectionOf(webSocket: WebSocket): DoubleConnection {
  const frames = new Mailbox<Frame>();
  webSocket.on("message", (data) => frames.put(JSON.parse(data.toString())));
  webSocket.on("error", () => {});
  return {
    frame: (type) => frames.next((frame) => frame.type === type),
    rest: () => frames.takeAll(),
    send: (frame) => webSocket.send(JSON.stringify(frame)),
    sendRaw: (data) => webSocket.send(data),
    close: (code, reason) => webSocket.close(code, reason),
    cut: () => webSocket.terminate(),
    closed: new Promise((resolve) => webSocket.on("close", (code) => resolve(code))),
  };
}

/** `welcome` to the device's seat; `changes` replace fields. */
export function welcomeFrame(changes: Record<string, unknown> = {}): Frame {
  return {
    type: "welcome",
    v: 1,
    room: "room-1",
    seat: "device",
    resume_key: "key-1",
    recv: 0,
    peer: "joined",
    expires_at: 4_000_000_000,
    limits: { frame: 65_536, idle_s: 15, dead_s: 10, grace_s: 15 },
    ...changes,
  };
}

export function taskFrame(changes: Record<string, unknown> = {}): Frame {
  return { type: "task", seq: 1, id: "ask_1", action: "battery.read", inputs: {}, budget_ms: 60_000, ...changes };
}
