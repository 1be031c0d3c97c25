/** A client that speaks the wire and nothing more, so that a test sees exactly what the service does. */
import { ROOM_PROTOCOL_VERSION, ROOM_SUBPROTOCOL, type ServiceFrame, serviceFrameSchema } from "@leafmesh/protocol";
import { WebSocket } from "ws";
import { Failure, shortened, within } from "./verdict.ts";

export interface TestSocketOptions {
  /** Offered subprotocol; `null` offers none. */
  readonly protocol?: string | null;
  /** Acknowledge what comes and answer pings, as a client must. Default: true. */
  readonly alive?: boolean;
  /** Where the count goes on after a resume. */
  readonly lastSeq?: number;
}

export interface SocketClose {
  readonly code: number;
  readonly reason: string;
}

type FrameOf<Type extends ServiceFrame["type"]> = Extract<ServiceFrame, { type: Type }>;

const PATIENCE_MS = 5000;

export class TestSocket {
  readonly #webSocket: WebSocket;
  readonly #unread: ServiceFrame[] = [];
  readonly #waiting = new Set<() => void>();
  #alive: boolean;
  #problem: string | undefined;
  #close: SocketClose | undefined;
  /** Everything that came, in order. */
  readonly received: ServiceFrame[] = [];
  /** The last sequence number that came; what a resume says in `recv`. */
  lastSeq: number;

  private constructor(webSocket: WebSocket, alive: boolean, lastSeq: number) {
    this.#webSocket = webSocket;
    this.#alive = alive;
    this.lastSeq = lastSeq;
    webSocket.on("message", (data, isBinary) => {
      this.#onMessage(isBinary ? undefined : data.toString());
      this.#wake();
    });
    webSocket.on("close", (code, reason) => {
      this.#close = { code, reason: reason.toString() };
      this.#wake();
    });
    // What matters is in the close event that follows.
    webSocket.on("error", () => {});
  }

  /** Opens the socket; says nothing yet. */
  static async open(url: string, options: TestSocketOptions = {}): Promise<TestSocket> {
    const protocol = options.protocol === undefined ? ROOM_SUBPROTOCOL : options.protocol;
    const alive = options.alive ?? true;
    const webSocket = new WebSocket(url, protocol === null ? [] : [protocol], {
      perMessageDeflate: false,
      followRedirects: false,
      autoPong: alive,
      handshakeTimeout: PATIENCE_MS,
    });
    await new Promise<void>((resolve, reject) => {
      webSocket.once("open", resolve);
      webSocket.once("unexpected-response", (request, response) => {
        response.resume();
        request.destroy();
        reject(new RefusedUpgrade(response.statusCode ?? 0));
      });
      webSocket.once("error", (error) => reject(new Failure(`no WebSocket at ${url}: ${error.message}`)));
    });
    return new TestSocket(webSocket, alive, options.lastSeq ?? 0);
  }

  get isOpen(): boolean {
    return this.#close === undefined;
  }

  send(frame: Readonly<Record<string, unknown>>): void {
    this.sendText(JSON.stringify(frame));
  }

  sendText(text: string): void {
    this.#webSocket.send(text);
  }

  sendBinary(bytes: Uint8Array): void {
    this.#webSocket.send(bytes, { binary: true });
  }

  hello(more: Readonly<Record<string, unknown>>): void {
    this.send({
      type: "hello",
      v: ROOM_PROTOCOL_VERSION,
      client: { name: "leafmesh-conformance", version: "1" },
      ...more,
    });
  }

  /** The first frame of this type that was not asked for yet, when it comes. */
  next<Type extends ServiceFrame["type"]>(
    type: Type,
    where: (frame: FrameOf<Type>) => boolean = () => true,
    withinMs = PATIENCE_MS,
  ): Promise<FrameOf<Type>> {
    const isWanted = (frame: ServiceFrame): frame is FrameOf<Type> =>
      frame.type === type && where(frame as FrameOf<Type>);
    return this.#until(
      () => {
        const index = this.#unread.findIndex(isWanted);
        const [frame] = index < 0 ? [] : this.#unread.splice(index, 1);
        return frame && isWanted(frame) ? frame : undefined;
      },
      `a "${type}" frame`,
      withinMs,
    );
  }

  /** A `peer` frame of this state. */
  peer(state: FrameOf<"peer">["state"], withinMs = PATIENCE_MS): Promise<FrameOf<"peer">> {
    return this.next("peer", (frame) => frame.state === state, withinMs);
  }

  /** How the service closes the socket, when it does. */
  async closed(withinMs = PATIENCE_MS): Promise<SocketClose> {
    await within(this.#whenClosed(), withinMs, () => `expected the service to close the socket within ${withinMs} ms`);
    return this.#close ?? { code: 1006, reason: "" };
  }

  /** The link is cut without a word, as when a phone loses its network. */
  async drop(): Promise<void> {
    this.#webSocket.terminate();
    await this.#whenClosed();
  }

  /** Stops answering without closing: a frozen app, a half-open link. */
  freeze(): void {
    this.#alive = false;
  }

  stopReading(): void {
    this.#webSocket.pause();
  }

  goOnReading(): void {
    this.#webSocket.resume();
  }

  /** Waits until nothing has come for a round trip: what the service had to say it has said. */
  async quiet(): Promise<void> {
    const n = Math.floor(Math.random() * 1e9);
    this.send({ type: "ping", n });
    await this.next("pong", (frame) => frame.n === n);
  }

  #onMessage(text: string | undefined): void {
    let json: unknown;
    try {
      json = JSON.parse(text ?? "");
    } catch {
      this.#problem ??= "the service sent something that is not JSON text";
      return;
    }
    const parsed = serviceFrameSchema.safeParse(json);
    if (!parsed.success) {
      const type = typeof json === "object" && json !== null && "type" in json ? String(json.type) : "";
      if (!type.startsWith("x-")) this.#problem ??= `the service sent a malformed frame: ${shortened(text ?? "")}`;
      return;
    }
    const frame = parsed.data;
    this.received.push(frame);
    this.#unread.push(frame);
    if ("seq" in frame && frame.type !== "ack") this.lastSeq = Math.max(this.lastSeq, frame.seq);
    if (!this.#alive || this.#webSocket.readyState !== WebSocket.OPEN) return;
    if (frame.type === "ping") this.send({ ...frame, type: "pong" });
    if ("seq" in frame && frame.type !== "ack") this.send({ type: "ack", seq: this.lastSeq });
  }

  async #until<Value>(look: () => Value | undefined, what: string, withinMs: number): Promise<Value> {
    const search = async (): Promise<Value> => {
      for (;;) {
        const found = look();
        if (found !== undefined) return found;
        if (this.#problem) throw new Failure(this.#problem);
        if (this.#close) {
          throw new Failure(
            `expected ${what}, but the socket was closed with ${this.#close.code} ${this.#close.reason}`,
          );
        }
        await new Promise<void>((resolve) => this.#waiting.add(resolve));
      }
    };
    return within(search(), withinMs, () => {
      const unread = this.#unread.map(({ type }) => type).join(", ") || "nothing";
      return `expected ${what} within ${withinMs} ms; there was ${unread}`;
    });
  }

  async #whenClosed(): Promise<void> {
    while (!this.#close) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

/** The service answered the upgrade with an HTTP status instead. */
export class RefusedUpgrade extends Error {
  override readonly name = "RefusedUpgrade";
  readonly status: number;

  constructor(status: number) {
    super(`the upgrade was answered with HTTP ${status}`);
    this.status = status;
  }
}
