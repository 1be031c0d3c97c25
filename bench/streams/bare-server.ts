/** The measure of a stream: `node:http` that holds server-sent events and nothing else. A POST is an event to all. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const streams = new Set<ServerResponse>();
let events = 0;

const server = createServer((request, response) => {
  if (request.method === "POST") {
    const frame = `id: ${++events}\ndata: {"type":"message.received","payload":{}}\n\n`;
    for (const stream of streams) stream.write(frame);
    response.end();
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  response.write(": connected\n\n");
  streams.add(response);
  response.on("close", () => streams.delete(response));
});
process.on("SIGTERM", () => process.exit(0));
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
});
