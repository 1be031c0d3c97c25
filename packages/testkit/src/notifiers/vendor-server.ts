/**
 * A server that plays a vendor's hosts, over TLS with a certificate for their real names: HTTP/1.1 and HTTP/2, whatever
 * the client asks for. It keeps every request, and counts connections. What a vendor checks is in the double's handler.
 */
import { once } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { createSecureServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { Network } from "@leafmesh/protocol";
import { createAuthority, type IssuedCertificate } from "../mosquitto/authority.ts";
import { type VendorFault, type VendorReply, writeReply } from "./replies.ts";

/** A request as it came over the wire. */
export interface VendorRequest {
  readonly method: string;
  readonly host: string;
  /** With the query, as received: what signatures are made over. */
  readonly target: string;
  /** Without the query, percent-encoding as received. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly httpVersion: string;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body as text, and as JSON; `undefined` when it is none. */
  readonly text: string;
  readonly json: unknown;
  /** Which of the server's connections it came over, from 1. */
  readonly connection: number;
}

export interface VendorServerOptions {
  /** Names that it answers to, such as `fcm.googleapis.com` or `*.notify.windows.com`. */
  readonly hosts: readonly string[];
  /** What the vendor would answer. What it throws is kept for {@link VendorServer.close} to throw. */
  readonly handle: (request: VendorRequest) => VendorReply | Promise<VendorReply>;
  /** Requests that an HTTP/2 connection may carry at once, until {@link VendorServer.allowAtOnce} says otherwise. */
  readonly atOnce?: number | undefined;
}

export interface VendorServer {
  readonly network: Network;
  /** What {@link networkOf} makes the same of in another process. */
  readonly address: PlayedAddress;
  readonly requests: readonly VendorRequest[];
  /** Connections made so far. */
  readonly connections: number;
  /** Connections that are open now. */
  readonly openConnections: number;
  /** The next request that `matches` is answered so, instead of by the handler. Several are used up in their order. */
  answerNext(reply: VendorReply | VendorFault, matches?: (request: VendorRequest) => boolean): void;
  /** Resolves when so many requests have come. */
  received(count: number): Promise<void>;
  /** Requests that this HTTP/2 connection may carry at once from now on. */
  allowAtOnce(connection: number, requests: number): void;
  /** Announces on every HTTP/2 connection that it takes no more requests; those that it has are answered. */
  goAway(data?: object): void;
  /** Resolves when no connection is open. */
  allClosed(): Promise<void>;
  /** Cuts every connection, as a restart of the vendor's would. */
  cutAll(): void;
  /** Closes all, and throws what a handler threw. */
  close(): Promise<void>;
}

interface Planned {
  readonly reply: VendorReply | VendorFault;
  readonly matches: (request: VendorRequest) => boolean;
}

interface Identity extends IssuedCertificate {
  readonly ca: string;
}

/** Kept, since a suite starts a server for every case. */
const identities = new Map<string, Promise<Identity>>();

function identityOf(hosts: readonly string[]): Promise<Identity> {
  const names = hosts.join(" ");
  let identity = identities.get(names);
  if (!identity) {
    identity = makeIdentity(hosts);
    identities.set(names, identity);
  }
  return identity;
}

async function makeIdentity(hosts: readonly string[]): Promise<Identity> {
  const authority = await createAuthority("LeafMesh played vendors");
  try {
    return { ca: authority.ca, ...(await authority.issue({ commonName: "played vendor", hosts })) };
  } finally {
    await authority.close();
  }
}

export async function startVendorServer({ hosts, handle, atOnce }: VendorServerOptions): Promise<VendorServer> {
  const { ca, cert, key } = await identityOf(hosts);
  const requests: VendorRequest[] = [];
  const planned: Planned[] = [];
  const failures: unknown[] = [];
  const waiting = new Set<() => void>();
  const sockets = new Set<Socket>();
  const sessions = new Map<number, ServerHttp2Session>();
  /** By the client's port: behind HTTP/2 a request does not know its socket itself. */
  const numbers = new Map<number | undefined, number>();
  let connections = 0;
  const changed = (): void => {
    for (const look of [...waiting]) look();
  };
  const until = (isSo: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (!isSo()) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
    });

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { remotePort } = incoming.socket;
    const request = toRequest(incoming, await readAll(incoming), numbers.get(remotePort) ?? 0);
    requests.push(request);
    const at = planned.findIndex(({ matches }) => matches(request));
    const [plan] = at < 0 ? [] : planned.splice(at, 1);
    const reply = plan?.reply ?? (await handle(request));
    changed();
    await writeReply(response, reply, () => {
      for (const socket of sockets) if (socket.remotePort === remotePort) socket.destroy();
    });
  };

  const settings = atOnce === undefined ? {} : { maxConcurrentStreams: atOnce };
  const server = createSecureServer({ cert, key, allowHTTP1: true, settings }, (http2Request, http2Response) => {
    // What is used of the two is the same in HTTP/1.1 and in HTTP/2.
    const [incoming, response] = [http2Request, http2Response] as unknown as [IncomingMessage, ServerResponse];
    incoming.on("error", () => {});
    response.on("error", () => {});
    answer(incoming, response).catch((error: unknown) => {
      failures.push(error);
      changed();
      response.destroy();
    });
  });
  // Before the server's own, which announces the HTTP/2 session.
  server.prependListener("secureConnection", (socket) => {
    sockets.add(socket);
    numbers.set(socket.remotePort, ++connections);
    socket.once("close", () => {
      sockets.delete(socket);
      changed();
    });
  });
  server.on("session", (session) => {
    const number = numbers.get(session.socket.remotePort) ?? 0;
    sessions.set(number, session);
    session.once("close", () => sessions.delete(number));
  });
  server.on("sessionError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  const played: PlayedAddress = { ca, ports: Object.fromEntries(hosts.map((name) => [name, port])) };

  return {
    network: networkOf(played),
    address: played,
    requests,
    get connections() {
      return connections;
    },
    get openConnections() {
      return sockets.size;
    },
    answerNext: (reply, matches = () => true) => void planned.push({ reply, matches }),
    received: (count) => until(() => requests.length >= count),
    allowAtOnce: (connection, maxConcurrentStreams) => sessions.get(connection)?.settings({ maxConcurrentStreams }),
    goAway(data = {}) {
      for (const session of sessions.values())
        session.goaway(0, session.state.lastProcStreamID, Buffer.from(JSON.stringify(data)));
    },
    allClosed: () => until(() => sockets.size === 0),
    cutAll() {
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      const [failure] = failures;
      if (failure !== undefined) throw failure;
    },
  };
}

/** Plain data: a test hands it to a process that it starts. */
export interface PlayedAddress {
  /** PEM */
  readonly ca: string;
  /** Names, such as `*.notify.windows.com`, and the port on this machine where they are played. */
  readonly ports: Readonly<Record<string, number>>;
}

/** Leads the played hosts to this machine, and leaves all others alone, where nothing trusts them. */
export function networkOf({ ca, ports }: PlayedAddress): Network {
  const hosts = Object.entries(ports);
  return {
    ca,
    route(host) {
      const [, port] = hosts.find(([name]) => isHost(name, host)) ?? [];
      return port === undefined ? undefined : { host: "127.0.0.1", port };
    },
  };
}

/** Several played vendors as one network: of the first that knows a host. */
export function joinNetworks(...networks: readonly Network[]): Network {
  return {
    ca: networks.map(({ ca }) => ca).join("\n"),
    route(host, port) {
      for (const network of networks) {
        const target = network.route(host, port);
        if (target) return target;
      }
      return undefined;
    },
  };
}

function isHost(name: string, host: string): boolean {
  if (!name.startsWith("*.")) return name === host;
  return host.endsWith(name.slice(1)) && !host.slice(0, 1 - name.length).includes(".");
}

async function readAll(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function toRequest(incoming: IncomingMessage, body: Buffer, connection: number): VendorRequest {
  const { method = "", url = "", headers, httpVersion } = incoming;
  const authority = headers[":authority"] ?? headers.host ?? "";
  const at = url.indexOf("?");
  const text = body.toString("utf8");
  return {
    method,
    host: String(authority),
    target: url,
    path: at < 0 ? url : url.slice(0, at),
    query: new URLSearchParams(at < 0 ? "" : url.slice(at + 1)),
    httpVersion,
    headers,
    body,
    text,
    json: parsed(text),
    connection,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
