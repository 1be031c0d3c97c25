/**
 * Mozilla's push service, as far as one Firefox needs it: the socket over which a browser is told, and the endpoint to which
 * a mesh sends. It forwards bytes as they are; whoever cannot decrypt them says so in its receipt.
 *
 * https://mozilla-push-service.readthedocs.io/en/latest/design/
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { startVendorServer, type VendorServer } from "@leafmesh/testkit/notifiers";
import { type WebSocket, WebSocketServer } from "ws";
import * as z from "zod";

const HOST = "updates.push.services.mozilla.com";
/** Firefox's word for a message that it has decrypted and given to the worker. */
export const DELIVERED = 100;

export interface Autopush {
  /** What Firefox's preference `dom.push.serverURL` is set to. */
  readonly url: string;
  /** Where a mesh's requests to Mozilla are to be led. */
  readonly server: VendorServer;
  /** What Firefox said of each message: {@link DELIVERED}, or why not. */
  readonly receipts: readonly number[];
  close(): Promise<void>;
}

const frameSchema = z.looseObject({
  messageType: z.string(),
  channelID: z.string().optional(),
  updates: z.array(z.looseObject({ code: z.number().optional() })).optional(),
});

export async function startAutopush(): Promise<Autopush> {
  const browsers = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await once(browsers, "listening");
  const receipts: number[] = [];
  /** The socket of the browser that registered a channel. */
  const channels = new Map<string, WebSocket>();

  browsers.on("connection", (socket) => {
    const tell = (frame: object): void => socket.send(JSON.stringify(frame));
    socket.on("message", (data) => {
      const { messageType, channelID, updates } = frameSchema.parse(JSON.parse(String(data)));
      if (messageType === "hello") {
        tell({ messageType, status: 200, uaid: randomUUID().replaceAll("-", ""), use_webpush: true, broadcasts: {} });
      } else if (messageType === "register" && channelID !== undefined) {
        channels.set(channelID, socket);
        tell({ messageType, channelID, status: 200, pushEndpoint: `https://${HOST}/wpush/v2/${channelID}` });
      } else if (messageType === "ack") {
        for (const { code } of updates ?? []) if (code !== undefined) receipts.push(code);
      } else if (messageType === "ping") tell({});
    });
  });

  const server = await startVendorServer({
    hosts: [HOST],
    handle({ method, path, headers, body }) {
      const channelID = path.slice("/wpush/v2/".length);
      const socket = channels.get(channelID);
      if (method !== "POST" || socket === undefined) return { status: 404 };
      const encoding = headers["content-encoding"];
      if (encoding !== "aes128gcm" || !headers.authorization?.startsWith("vapid ") || !headers.ttl)
        return { status: 400 };
      const message = { channelID, version: randomUUID(), data: body.toString("base64url"), headers: { encoding } };
      socket.send(JSON.stringify({ messageType: "notification", ...message }));
      return { status: 201, headers: { location: `https://${HOST}/m/${message.version}` } };
    },
  });

  return {
    url: `ws://127.0.0.1:${(browsers.address() as AddressInfo).port}/`,
    server,
    receipts,
    async close() {
      for (const socket of browsers.clients) socket.terminate();
      await new Promise((resolve) => browsers.close(resolve));
      await server.close();
    },
  };
}
