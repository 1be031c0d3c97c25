/** The way to a broker from Node: TCP, TLS or WebSocket, with exactly these options and none from the environment. */
import { connect as connectTcp, isIP } from "node:net";
import type { Duplex } from "node:stream";
// As a whole, so that the bundle loads TLS with the first connection that needs it.
import nodeTls, { type ConnectionOptions } from "node:tls";
import { operatorLookup } from "@leafmesh/guarded-fetch";
import type { Secret } from "@leafmesh/protocol";
import type * as WebSockets from "ws";
import type { BrokerAddress } from "./address.ts";

/** A broker may put several packets into one message. */
const MAX_WEBSOCKET_MESSAGE_BYTES = 4 * 1024 * 1024;

export interface TlsMaterial {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: Secret | undefined;
}

export type OpenStream = (address: BrokerAddress) => Duplex;

/** Imports what the scheme needs. The returned function connects anew on each call. */
export async function streamOpener(scheme: BrokerAddress["scheme"], tls: TlsMaterial): Promise<OpenStream> {
  if (scheme === "mqtt") return ({ host, port }) => connectTcp({ host, port, noDelay: true, lookup: operatorLookup });
  if (scheme === "mqtts") return (address) => openTls(address, tls);
  const webSockets = await import("ws");
  return (address) => openWebSocket(webSockets, address, tls);
}

function openTls(address: BrokerAddress, tls: TlsMaterial): Duplex {
  const socket = nodeTls.connect({
    host: address.host,
    port: address.port,
    lookup: operatorLookup,
    ...tlsOptions(address, tls),
  });
  // The TLS socket takes no such option; by then the network connection is there.
  socket.once("connect", () => socket.setNoDelay(true));
  return socket;
}

/** `ws` turns Nagle's algorithm off by itself. */
function openWebSocket(
  { WebSocket, createWebSocketStream }: typeof WebSockets,
  address: BrokerAddress,
  tls: TlsMaterial,
): Duplex {
  const socket = new WebSocket(`${address.scheme}://${address.label}${address.path}`, ["mqtt"], {
    perMessageDeflate: false,
    maxPayload: MAX_WEBSOCKET_MESSAGE_BYTES,
    lookup: operatorLookup,
    ...(address.secure ? tlsOptions(address, tls) : {}),
  });
  const stream = createWebSocketStream(socket);
  socket.once("unexpected-response", (request, response) => {
    const status = response.statusCode ?? 0;
    // Told before the stream is destroyed: that would report the handshake that was broken off instead.
    stream.emit("error", Object.assign(new Error(`HTTP status ${status}`), { code: `HTTP_${status}` }));
    request.destroy();
    stream.destroy();
  });
  socket.once("close", () => stream.destroy());
  return stream;
}

function tlsOptions({ host }: BrokerAddress, { ca, cert, key }: TlsMaterial): ConnectionOptions {
  return {
    rejectUnauthorized: true,
    // An IP address is no server name (RFC 6066); the certificate is checked against the address all the same.
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key: key.reveal() }),
  };
}
