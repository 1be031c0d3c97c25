/**
 * A TCP forwarder between two processes that misbehaves when it is told to: cuts connections that both sides believe in,
 * is slow, stalls, breaks what it forwards into pieces.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { forward } from "./forward.ts";

/** What happens to the bytes on their way. All off at first. */
export interface LinkFaults {
  /** Every byte comes so much later, each way. */
  readonly delayMs: number;
  /** The delay differs by at most this. */
  readonly jitterMs: number;
  /** Each connection carries no more each way; 0 for no limit. */
  readonly bytesPerSecond: number;
  /** What is forwarded comes in pieces of at most so many bytes; 0 for no limit. */
  readonly pieceBytes: number;
  /** Nothing reaches the target. The connections stay. */
  readonly stallUp: boolean;
  /** Nothing reaches the client. The connections stay. */
  readonly stallDown: boolean;
}

/** `rst` resets the connection, `fin` closes it politely. */
type Cut = "rst" | "fin";

export interface CutPoint {
  /** Bytes to the client after which its connection is cut. */
  readonly bytesDown: number;
  readonly how: Cut;
}

export interface TcpProxy extends AsyncDisposable {
  /** On 127.0.0.1. */
  readonly port: number;
  /** Connections that their client has not ended. */
  readonly connections: number;
  /** Connections so far. */
  readonly accepted: number;
  /** Resolves when a client has connected that was not there at the time of the call. */
  connected(): Promise<void>;
  /** Changes some of the faults, for open connections too. */
  set(faults: Partial<LinkFaults>): void;
  /** Ends every connection. New ones are forwarded. */
  cut(how?: Cut): void;
  /** Cuts the next connection that carries so many bytes to its client, exactly there. */
  cutAfter(point: CutPoint): void;
  /** New connections are forwarded to this port, as by a balancer that saw the old target die. */
  retarget(port: number): void;
  /** Resets every connection, and every new one until `restore`. */
  block(): void;
  restore(): void;
  stop(): Promise<void>;
}

const NO_FAULTS: LinkFaults = {
  delayMs: 0,
  jitterMs: 0,
  bytesPerSecond: 0,
  pieceBytes: 0,
  stallUp: false,
  stallDown: false,
};

/** Forwards to `targetPort` on 127.0.0.1. `random` decides the jitter. */
export async function startTcpProxy(targetPort: number, random: () => number = Math.random): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let faults = NO_FAULTS;
  let changed = Promise.withResolvers<void>();
  let cutPoint: CutPoint | undefined;
  let blocked = false;
  let accepted = 0;
  let target = targetPort;

  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    accepted++;
    if (blocked) {
      client.resetAndDestroy();
      return;
    }
    const upstream = connect({ port: target, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
    const pair = [client, upstream] as const;
    pairs.add(pair);
    const link = { faults: () => faults, changed: () => changed.promise, random };
    let bytesDown = 0;
    forward(client, upstream, { ...link, isStalled: () => faults.stallUp });
    forward(upstream, client, {
      ...link,
      isStalled: () => faults.stallDown,
      allowed: (length) => Math.min(length, Math.max(0, (cutPoint?.bytesDown ?? Number.POSITIVE_INFINITY) - bytesDown)),
      passed(length) {
        bytesDown += length;
        if (!cutPoint || bytesDown < cutPoint.bytesDown) return;
        const { how } = cutPoint;
        cutPoint = undefined;
        end(pair, how);
      },
    });
    for (const socket of pair) socket.on("close", () => void pairs.delete(pair));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (typeof address !== "object" || !address) throw new Error("the proxy has no port");

  const end = (pair: readonly [Socket, Socket], how: Cut): void => {
    for (const socket of pair) {
      if (how === "rst") socket.resetAndDestroy();
      else socket.destroySoon();
    }
  };
  const cut = (how: Cut = "rst"): void => {
    for (const pair of pairs) end(pair, how);
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
      return [...pairs].filter(([client]) => !client.readableEnded).length;
    },
    get accepted() {
      return accepted;
    },
    async connected() {
      await once(server, "connection");
    },
    set(some) {
      faults = { ...faults, ...some };
      changed.resolve();
      changed = Promise.withResolvers();
    },
    cut,
    cutAfter(point) {
      cutPoint = point;
    },
    retarget(port) {
      target = port;
    },
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
