/** What a client sees on the wire, whatever the route is. */
import { createConnection, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { startTestServer, type TestServer } from "./test-server.ts";

const open: TestServer[] = [];

async function start(options: Parameters<typeof startTestServer>[0] = {}): Promise<TestServer> {
  const server = await startTestServer(options);
  open.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

interface RawAnswer {
  readonly socket: Socket;
  /** Everything until the peer closed. */
  readonly whole: Promise<string>;
}

function send(server: TestServer, request: string): RawAnswer {
  const socket = createConnection(server.port, "127.0.0.1");
  const whole = new Promise<string>((resolve) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString();
    });
    socket.on("error", () => {});
    socket.once("close", () => resolve(text));
  });
  socket.write(request);
  return { socket, whole };
}

const close = "host: localhost\r\nconnection: close\r\n";

describe("an answer", () => {
  it("has its length, its type and the headers that guard a browser", async () => {
    const server = await start();
    const answer = await server.call("GET", "/healthz");
    expect(answer.body).toEqual({ status: "ok" });
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-length": "15",
      "content-type": "application/json",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
  });

  it("to HEAD is that to GET without its body", async () => {
    const server = await start();
    const text = await send(server, `HEAD /healthz HTTP/1.1\r\n${close}\r\n`).whole;
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(text).toContain("content-length: 15\r\n");
    expect(text.endsWith("\r\n\r\n")).toBe(true);
  });

  it("does not depend on the form of the address", async () => {
    const server = await start();
    const text = await send(server, `GET http://localhost/healthz?x=1 HTTP/1.1\r\n${close}\r\n`).whole;
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  });

  it.each(["*", "//healthz", "/healthz/", "/%2e%2e/healthz"])("to the odd address %j is a 404", async (path) => {
    const server = await start();
    const text = await send(server, `GET ${path} HTTP/1.1\r\n${close}\r\n`).whole;
    expect(text).toMatch(/^HTTP\/1\.1 404 /);
    expect(text).toContain('"no_such_route"');
  });

  it("goes by the first of a parameter that comes twice", async () => {
    const server = await start();
    expect((await server.call("GET", "/api/sessions?limit=1&limit=x")).status).toBe(200);
    expect((await server.call("GET", "/api/sessions?limit=x&limit=1")).status).toBe(400);
  });
});

describe("a body that nobody reads", () => {
  it("does not end a connection when it is all there", async () => {
    const server = await start();
    const text = await send(
      server,
      "POST /nope HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello" +
        `GET /healthz HTTP/1.1\r\n${close}\r\n`,
    ).whole;
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 404", "HTTP/1.1 200"]);
  });

  it("is cut when it goes on after its answer", async () => {
    const server = await start();
    const { socket, whole } = send(
      server,
      "POST /nope HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    const more = setInterval(() => socket.write("5\r\nhello\r\n"), 50);
    const text = await whole;
    clearInterval(more);
    expect(text).toMatch(/^HTTP\/1\.1 404 /);
  });
});
