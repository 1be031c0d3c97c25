/** The app's own address that notices go to. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export interface Delivery {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Hook {
  readonly url: string;
  /** The next notice, already come or to come. */
  next(): Promise<Delivery>;
  close(): Promise<void>;
}

export async function startHook(): Promise<Hook> {
  const come: Delivery[] = [];
  const waiting: ((delivery: Delivery) => void)[] = [];
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const delivery = { headers: incoming.headers, body: Buffer.concat(chunks).toString("utf8") };
      const take = waiting.shift();
      if (take) take(delivery);
      else come.push(delivery);
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    next: () => {
      const first = come.shift();
      return first ? Promise.resolve(first) : new Promise((resolve) => waiting.push(resolve));
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
