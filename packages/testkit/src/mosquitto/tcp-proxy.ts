/** A TCP forwarder between a client and a broker, to cut connections that both sides believe in. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

export interface TcpProxy extends AsyncDisposable {
  /** On 127.0.0.1. */
  readonly port: number;
  /** Connections open now. */
  readonly connections: number;
  /** Resolves when a client has connected that was not there at the time of the call. */
  connected(): Promise<void>;
  /** Resets every connection. New ones are forwarded. */
  cut(): void;
  /** Resets every connection, and every new one until `restore`. */
  block(): void;
  restore(): void;
  stop(): Promise<void>;
}

export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let blocked = false;
  const server = createServer({ noDelay: true }, (client) => {
    if (blocked) {
      client.resetAndDestroy();
      return;
    }
    const target = connect({ port: targetPort, host: "127.0.0.1", noDelay: true });
    const pair = [client, target] as const;
    pairs.add(pair);
    client.pipe(target).pipe(client);
    for (const socket of pair) {
      socket.on("error", () => {});
      socket.on("close", () => {
        pairs.delete(pair);
        for (const each of pair) each.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (typeof address !== "object" || !address) throw new Error("the proxy has no port");

  const cut = (): void => {
    for (const pair of pairs) for (const socket of pair) socket.resetAndDestroy();
  };
  const stop = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    cut();
    await closed;
  };
  return {
    port: address.port,
    get connections() {
      return pairs.size;
    },
    async connected() {
      await once(server, "connection");
    },
    cut,
    block() {
      blocked = true;
      cut();
    },
    restore() {
      blocked = false;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
