import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { type CutPoint, type LinkFaults, startTcpProxy } from "./index.ts";

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

describe("a link", () => {
  const hello = Buffer.from("hello, whoever is there");

  async function echoBehind(faults: Partial<LinkFaults>, cutPoint?: CutPoint) {
    const echo = createServer((socket) => socket.on("error", () => {}).pipe(socket)).listen(0, "127.0.0.1");
    onTestFinished(() => void echo.close());
    await once(echo, "listening");
    const address = echo.address();
    const proxy = await startTcpProxy(typeof address === "object" && address ? address.port : 0);
    onTestFinished(() => proxy.stop());
    proxy.set(faults);
    if (cutPoint) proxy.cutAfter(cutPoint);
    const client = connect(proxy.port, "127.0.0.1").on("error", () => {});
    const pieces: Buffer[] = [];
    client.on("data", (piece) => pieces.push(piece));
    const startedAt = performance.now();
    client.write(hello);
    const whole = (): Buffer => Buffer.concat(pieces);
    return { proxy, client, whole, pieces, tookMs: () => performance.now() - startedAt };
  }
  const all = async (client: Socket, whole: () => Buffer): Promise<void> => {
    while (whole().length < hello.length) await once(client, "data");
  };

  it("delays both ways", async () => {
    const { client, whole, tookMs } = await echoBehind({ delayMs: 40 });
    await all(client, whole);
    expect(tookMs()).toBeGreaterThanOrEqual(78);
    expect(whole()).toEqual(hello);
  });

  it("carries so many bytes a second, in pieces", async () => {
    const { client, whole, tookMs } = await echoBehind({ bytesPerSecond: 200, pieceBytes: 1 });
    await all(client, whole);
    expect(tookMs()).toBeGreaterThanOrEqual(110);
    expect(whole()).toEqual(hello);
  });

  it("stalls and goes on", async () => {
    const { proxy, client, whole } = await echoBehind({ stallDown: true });
    const first = await Promise.race([
      once(client, "data"),
      new Promise((resolve) => setTimeout(resolve, 100, "none")),
    ]);
    expect(first).toBe("none");
    proxy.set({ stallDown: false });
    await all(client, whole);
    expect(whole()).toEqual(hello);
  });

  it.each(["rst", "fin"] as const)("is cut by %s exactly after so many bytes, once", async (how) => {
    const { proxy, client, whole } = await echoBehind({ pieceBytes: 4 }, { bytesDown: 7, how });
    await closed(client);
    expect(whole()).toEqual(hello.subarray(0, 7));
    const again = connect(proxy.port, "127.0.0.1").on("error", () => {});
    const pieces: Buffer[] = [];
    again.on("data", (piece) => pieces.push(piece));
    again.write(hello);
    await all(again, () => Buffer.concat(pieces));
  });
});
