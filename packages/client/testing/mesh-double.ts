/** A small mesh of the wire alone: streams that can be cut, results and resumes that are recorded and answered at will. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Posted {
  readonly path: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape are looked into
  readonly body: any;
}

/** What a request is answered with; `cut` breaks the connection after the mesh has taken the request. */
export type Reply =
  | { readonly status: number; readonly body: unknown; readonly headers?: Record<string, string> }
  | "cut";

export interface StoredFrame {
  readonly seq: number;
  readonly data: unknown;
}

interface OpenStream {
  readonly response: ServerResponse;
}

export class MeshDouble {
  /** Requests that were not for a stream, in the order of their coming. */
  readonly posted: Posted[] = [];
  /** `Last-Event-ID` of each connection of a stream, and whether it came from an executor. */
  readonly connections: { readonly path: string; readonly after: number; readonly executor: boolean }[] = [];
  /** Answers requests that are not for a stream; replaced by tests. */
  answer: (posted: Posted, request: IncomingMessage) => Reply = () => ({ status: 200, body: { resolved: true } });
  /** Files that are served as they are, by their path. */
  readonly pages = new Map<string, { readonly type: string; readonly body: string }>();
  /** Answers every request for a stream instead. */
  refuse: Exclude<Reply, "cut"> | undefined;
  /** Frames that a new connection gets after the backlog. */
  greet: () => readonly unknown[] = () => [];
  readonly #frames = new Map<string, StoredFrame[]>();
  readonly #streams = new Map<string, Set<OpenStream>>();
  readonly #waiting = new Set<() => void>();
  readonly #server = createServer((request, response) => void this.#handle(request, response));
  url = "";

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Stores a frame of the stream at `path` and shows it to whoever reads it. */
  append(path: string, seq: number, data: unknown): void {
    const frame = { seq, data };
    const stored = this.#frames.get(path) ?? [];
    stored.push(frame);
    this.#frames.set(path, stored);
    for (const { response } of this.#streams.get(path) ?? []) writeFrame(response, data, seq);
  }

  /** Changes what a stored frame says to connections that come later. */
  replace(path: string, seq: number, data: unknown): void {
    const stored = this.#frames.get(path) ?? [];
    this.#frames.set(
      path,
      stored.map((frame) => (frame.seq === seq ? { seq, data } : frame)),
    );
  }

  /** Breaks every connection of the stream. */
  cut(path: string): void {
    for (const { response } of this.#streams.get(path) ?? []) response.destroy();
  }

  attached(path: string): number {
    return this.#streams.get(path)?.size ?? 0;
  }

  /** Resolves when `holds` does; looked at whenever a request comes or a stream opens or closes. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((wake) => this.#waiting.add(wake));
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    if (request.method === "GET" && path.endsWith("/stream")) {
      this.#stream(path, request, response);
      return;
    }
    const page = this.pages.get(path);
    if (page) {
      response.writeHead(200, { "content-type": page.type }).end(page.body);
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const posted = { path, body: text === "" ? undefined : JSON.parse(text) };
    this.posted.push(posted);
    const reply = this.answer(posted, request);
    if (reply === "cut") response.destroy();
    else sendJson(response, reply);
    this.#wake();
  }

  #stream(path: string, request: IncomingMessage, response: ServerResponse): void {
    if (this.refuse) {
      sendJson(response, this.refuse);
      return;
    }
    const after = Number(request.headers["last-event-id"] ?? 0);
    this.connections.push({ path, after, executor: request.headers["x-mewbo-capabilities"] === "device_control" });
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(": connected\n\n");
    for (const { seq, data } of this.#frames.get(path) ?? []) if (seq > after) writeFrame(response, data, seq);
    for (const data of this.greet()) writeFrame(response, data);
    const stream = { response };
    const open = this.#streams.get(path) ?? new Set();
    open.add(stream);
    this.#streams.set(path, open);
    response.on("close", () => {
      open.delete(stream);
      this.#wake();
    });
    this.#wake();
  }
}

function sendJson(response: ServerResponse, { status, body, headers }: Exclude<Reply, "cut">): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

function writeFrame(response: ServerResponse, data: unknown, seq?: number): void {
  response.write(`${seq === undefined ? "" : `id: ${seq}\n`}data: ${JSON.stringify(data)}\n\n`);
}
