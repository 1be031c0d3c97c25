/**
 * The measure of a connection: a `ws` server that holds idle sockets and nothing else, and a client that opens them.
 * `ROLE` is `server` or `client`; the server says its port, the client when all `COUNT` are open.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";

const AT_A_TIME = 100;

if (process.env.ROLE === "server") {
  const server = createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: false });
  sockets.on("connection", (socket) => socket.on("message", () => {}));
  server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: (server.address() as AddressInfo).port })));
} else {
  const url = `ws://127.0.0.1:${process.env.PORT}`;
  const count = Number(process.env.COUNT);
  for (let open = 0; open < count; open += AT_A_TIME) {
    await Promise.all(
      Array.from({ length: Math.min(AT_A_TIME, count - open) }, async () => {
        const socket = new WebSocket(url, { perMessageDeflate: false });
        await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
      }),
    );
  }
  console.log(JSON.stringify({ open: count }));
}
process.on("SIGTERM", () => process.exit(0));
