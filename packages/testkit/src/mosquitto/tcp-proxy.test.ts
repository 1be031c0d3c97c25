import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { startTcpProxy } from "./index.ts";

it("forwards both ways, and cuts both sides", async () => {
  const echo = createServer((socket) => socket.on("error", () => {}).pipe(socket)).listen(0, "127.0.0.1");
  onTestFinished(() => void echo.close());
  await once(echo, "listening");
  const address = echo.address();
  await using proxy = await startTcpProxy(typeof address === "object" && address ? address.port : 0);

  const client = connect(proxy.port, "127.0.0.1").on("error", () => {});
  client.write("hello");
  expect(String((await once(client, "data"))[0])).toBe("hello");
  expect(proxy.connections).toBe(1);
  proxy.block();
  await closed(client);
  const refused = connect(proxy.port, "127.0.0.1").on("error", () => {});
  await closed(refused);
  proxy.restore();
  const again = connect(proxy.port, "127.0.0.1").on("error", () => {});
  again.write("again");
  expect(String((await once(again, "data"))[0])).toBe("again");
});

/** Unlike `once`, not an error when the connection is reset. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}
