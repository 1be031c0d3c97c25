import { once } from "node:events";
import { type JoinInfo, ROOM_SUBPROTOCOL } from "@leafmesh/protocol";
import { WebSocket } from "ws";

/** Somebody who knows the address and the room, and makes a token up. Resolves when the service has closed the door. */
export async function intrudeOverSocket({ url = "", room }: JoinInfo, text: string): Promise<void> {
  const socket = new WebSocket(url, ROOM_SUBPROTOCOL);
  socket.on("error", () => {});
  await once(socket, "open");
  const closed = once(socket, "close");
  socket.send(JSON.stringify({ type: "hello", v: 1, room, token: "a-token-that-nobody-gave-out" }));
  socket.send(JSON.stringify({ ...JSON.parse(text), seq: 1 }));
  await closed;
}
