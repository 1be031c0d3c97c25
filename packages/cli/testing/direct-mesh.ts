/** As much of a mesh as a device sees: its keys, its direct sockets, its rooms, a place for uploads. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createDirectHub, hashDirectToken } from "@leafmesh/notifiers";
import {
  createRingSigner,
  type Ring,
  type RingSigner,
  Secret,
  silentLogger,
  systemClock,
  type TaskEnvelope,
} from "@leafmesh/protocol";
import { createRoomService, type OutboundFrame } from "@leafmesh/room-service";

export interface AskedRoom {
  /** The next frame of this type that the room has for the mesh. */
  frame<Type extends OutboundFrame["type"]>(type: Type): Promise<Extract<OutboundFrame, { type: Type }>>;
  /** Everything that has come and was not waited for. */
  rest(): readonly OutboundFrame[];
  task(changes?: Partial<TaskEnvelope>): void;
  close(): void;
}

export interface DirectMesh {
  readonly url: string;
  /** Opens a room and rings `phone-7` for it with the token that it was given; `sign` may forge. */
  ask(changes?: Partial<Ring>, signer?: RingSigner): Promise<AskedRoom>;
  readonly uploads: ReadonlyMap<string, Buffer>;
  /** Whether the device can be rung now. */
  connected(): number;
  close(): Promise<void>;
}

export async function startDirectMesh(token: string): Promise<DirectMesh> {
  const signer = await newSigner();
  const uploads = new Map<string, Buffer>();
  const hub = createDirectHub({ clock: systemClock, logger: silentLogger });
  const server = createServer((request, response) => {
    if (request.url === "/.well-known/leafmesh-keys") {
      response.end(JSON.stringify({ keys: [signer.key] }));
      return;
    }
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      uploads.set(request.url ?? "", Buffer.concat(chunks));
      response.writeHead(201).end("{}");
    });
  });
  let url = "";
  const rooms = createRoomService({ connectUrl: () => `${url.replace("http", "ws")}/v1/connect` });
  server.on("upgrade", (request, socket, head) => {
    if (!rooms.handleUpgrade(request, socket, head)) hub.handleUpgrade(request, socket, head);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    url,
    uploads,
    connected: () => hub.connected(),
    async ask(changes = {}, by = signer) {
      const frames = frameReader();
      const room = await rooms.openLocal({ lifetimeMs: 60_000, joinWithinMs: 30_000, onFrame: frames.put });
      const iat = Math.floor(Date.now() / 1000);
      const ring = await by.sign({
        v: 1,
        ask: "ask_1",
        device: "phone-7",
        approval: "ask",
        mesh: "support",
        iat,
        exp: iat + 30,
        join: { provider: "leafmesh", url: room.connectUrl, room: room.roomId, token: room.deviceToken },
        ...changes,
      });
      await hub.ring(
        {
          deviceId: ring.device,
          tokenHash: hashDirectToken(new Secret(token)),
          askId: ring.ask,
          body: JSON.stringify(ring),
        },
        new AbortController().signal,
      );
      return {
        frame: frames.next,
        rest: frames.rest,
        task: (task = {}) =>
          void room.send({
            type: "task",
            id: ring.ask,
            action: "battery.read",
            inputs: {},
            budget_ms: 30_000,
            upload: { url: `${url}/uploads`, token: "one-use", max_bytes: 100_000 },
            ...task,
          }),
        close: () => room.close(),
      };
    },
    async close() {
      await Promise.all([hub.close(), rooms.close()]);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export async function newSigner(): Promise<RingSigner> {
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  if (!("publicKey" in pair)) throw new Error("Ed25519 keys come in pairs");
  return createRingSigner(pair);
}

function frameReader() {
  const frames: OutboundFrame[] = [];
  const wakers: (() => void)[] = [];
  return {
    put(frame: OutboundFrame): void {
      frames.push(frame);
      for (const wake of wakers.splice(0)) wake();
    },
    rest: (): readonly OutboundFrame[] => frames.splice(0),
    async next<Type extends OutboundFrame["type"]>(type: Type): Promise<Extract<OutboundFrame, { type: Type }>> {
      for (;;) {
        for (let frame = frames.shift(); frame; frame = frames.shift()) {
          if (isOf(frame, type)) return frame;
        }
        await new Promise<void>((resolve) => wakers.push(resolve));
      }
    },
  };
}

function isOf<Type extends OutboundFrame["type"]>(
  frame: OutboundFrame,
  type: Type,
): frame is Extract<OutboundFrame, { type: Type }> {
  return frame.type === type;
}
