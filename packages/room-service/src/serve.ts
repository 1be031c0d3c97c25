import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { resolveBounds } from "./bounds.ts";
import { createRoomService, type RoomService, type RoomServiceOptions } from "./service.ts";

export interface ServeRoomsOptions extends Omit<RoomServiceOptions, "connectUrl"> {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** `https://…` as devices reach the service through its proxy; default: what it listens on. */
  readonly publicUrl?: string | undefined;
}

export interface RoomServer {
  readonly service: RoomService;
  /** The base URL for API calls. */
  readonly url: string;
  /** Says goodbye to every seat, then stops listening. Idempotent. */
  close(): Promise<void>;
}

/** Connections beside those of the seats. */
const HTTP_CONNECTIONS = 1000;

/** A room service with an HTTP server of its own. Rejects when the address cannot be listened on. */
export async function serveRooms(options: ServeRoomsOptions): Promise<RoomServer> {
  const { requestHeadMs, requestMs, rooms, pendingConnections } = resolveBounds(options.bounds);
  let url = "";
  const service = createRoomService({ ...options, connectUrl: () => connectUrlOf(options.publicUrl ?? url) });
  // Slow or silent clients are cut by these; without them a thousand half requests hold a thousand sockets.
  const server = createServer(
    {
      headersTimeout: requestHeadMs,
      requestTimeout: requestMs,
      keepAliveTimeout: 30_000,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16 * 1024,
      noDelay: true,
    },
    (request, response) => {
      if (service.handleRequest(request, response)) return;
      const healthy = request.url === "/healthz";
      response.writeHead(healthy ? 200 : 404, { "content-type": "application/json; charset=utf-8" });
      response.end(
        JSON.stringify(
          healthy
            ? { status: "ok", ...service.stats() }
            : { error: { code: "not_found", message: "nothing here", temporary: false } },
        ),
      );
    },
  );
  server.maxConnections = 2 * rooms + pendingConnections + HTTP_CONNECTIONS;
  server.on("upgrade", (request, socket, head) => {
    if (!service.handleUpgrade(request, socket, head))
      socket.end("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n");
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  url = urlOf(server.address() as AddressInfo);

  let closing: Promise<void> | undefined;
  const shutDown = async (): Promise<void> => {
    const stopped = new Promise<void>((resolve) => server.close(() => resolve()));
    await service.close();
    server.closeAllConnections();
    await stopped;
  };
  return {
    service,
    url,
    close() {
      closing ??= shutDown();
      return closing;
    },
  };
}

/** `https://host/base` → `wss://host/base/v1/connect`. */
export function connectUrlOf(baseUrl: string): string {
  return `${baseUrl.replace(/^http/, "ws").replace(/\/+$/, "")}/v1/connect`;
}

function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
