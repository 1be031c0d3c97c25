/** Binds the API to an address, with the limits that keep a hostile peer cheap, and lets it go gracefully. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "@leafmesh/protocol";
import { isLoopback } from "./access.ts";
import type { Api } from "./app.ts";

/** A service that shares the port: WebSocket paths and plain HTTP paths of its own. */
export interface MountedService {
  /** Takes the request over and says so, or leaves it. */
  handleRequest?(request: IncomingMessage, response: ServerResponse): boolean;
  /** Takes the upgrade over and says so, or leaves it. */
  handleUpgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  readonly hasKeys: boolean;
  readonly services: readonly MountedService[];
  readonly logger: Logger;
}

export interface Listening {
  readonly host: string;
  readonly port: number;
  /** Address for people and for devices on this machine, such as `http://127.0.0.1:18820`. */
  readonly url: string;
  /** Stops accepting, waits for answers under way up to `graceMs`, then cuts what is left. */
  close(graceMs: number): Promise<void>;
}

/** The address cannot be used; `message` says why and what to do. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

/** Starts listening. Throws {@link ListenError}. */
export async function listen(api: Api, options: ListenOptions): Promise<Listening> {
  if (!options.hasKeys && !isLoopback(options.host)) {
    throw new ListenError(
      `server.host is ${options.host} but server.api_keys is empty: add an API key, or use 127.0.0.1.`,
    );
  }
  const server: Server = createServer(
    { headersTimeout: 10_000, requestTimeout: 60_000, connectionsCheckingInterval: 5_000, maxHeaderSize: 16 * 1024 },
    (request, response) => {
      if (options.services.some((service) => service.handleRequest?.(request, response))) return;
      void api.handle(request, response);
    },
  );
  server.keepAliveTimeout = 65_000;
  server.maxRequestsPerSocket = 0;
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", destroyOnError);
    if (options.services.some((service) => service.handleUpgrade?.(request, socket, head))) return;
    socket.end("HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
  });

  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => reject(new ListenError(explain(cause, options), { cause })));
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const name = options.host === "::1" || options.host.includes(":") ? `[${options.host}]` : options.host;

  return {
    host: options.host,
    port,
    url: `http://${name === "0.0.0.0" ? "127.0.0.1" : name}:${port}`,
    async close(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const cut = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(cut);
    },
  };
}

/** Not a closure over the request, which would live as long as the socket. */
function destroyOnError(this: Duplex): void {
  this.destroy();
}

function explain(error: NodeJS.ErrnoException, { host, port }: ListenOptions): string {
  if (error.code === "EADDRINUSE") {
    return `Port ${port} on ${host} is taken: stop the other process, or choose another with --port or server.port.`;
  }
  if (error.code === "EACCES") return `Port ${port} needs privileges that this process lacks: choose one above 1023.`;
  if (error.code === "EADDRNOTAVAIL") return `This machine has no address ${host}: correct server.host.`;
  return `Cannot listen on ${host}:${port}: ${error.message}`;
}
