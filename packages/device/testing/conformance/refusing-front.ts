/** Stands before a room service and can answer in its place, as the service does when it refuses to open a room. */
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export interface RefusingFront {
  readonly port: number;
  /** Connections from now on get this status; `undefined`: they reach the service. */
  refuse(status: number | undefined): void;
  close(): Promise<void>;
}

export async function startRefusingFront(servicePort: number): Promise<RefusingFront> {
  let status: number | undefined;
  const open = new Set<Socket>();
  const refuser = createHttpServer((request, response) => {
    request.resume();
    response.writeHead(status ?? 503, { connection: "close", "content-type": "application/json" });
    response.end(JSON.stringify({ error: { code: "refused", message: "refused" } }));
  });
  await listen(refuser);
  const front = createServer((socket) => {
    const onwards = connect(status === undefined ? servicePort : portOf(refuser), "127.0.0.1");
    for (const [from, to] of [
      [socket, onwards],
      [onwards, socket],
    ] as const) {
      open.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        open.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  await listen(front);
  return {
    port: portOf(front),
    refuse(next) {
      status = next;
    },
    async close() {
      for (const socket of open) socket.destroy();
      await Promise.all([front, refuser].map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve) => void server.listen(0, "127.0.0.1", resolve));
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}
