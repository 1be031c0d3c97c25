/** A WebSocket client that may break every rule of RFC 6455, for tests. */
import { connect, type Socket } from "node:net";

export interface RawFrame {
  readonly opcode: number;
  readonly payload: Buffer;
}

export interface FrameOptions {
  readonly mask?: boolean;
  readonly fin?: boolean;
  /** Reserved bits as they stand in the first byte. */
  readonly reserved?: number;
}

export const OPCODE = { continuation: 0, text: 1, close: 8, ping: 9, pong: 10 } as const;

/** One frame as bytes; masked with zeros, so that the payload stays readable. */
export function encodeFrame(opcode: number, payload: Buffer | string, options: FrameOptions = {}): Buffer {
  const { mask = true, fin = true, reserved = 0 } = options;
  const body = Buffer.from(payload);
  const head = [(fin ? 0x80 : 0) | reserved | opcode];
  const maskBit = mask ? 0x80 : 0;
  if (body.length < 126) head.push(maskBit | body.length);
  else if (body.length < 65_536) head.push(maskBit | 126, body.length >> 8, body.length & 255);
  else {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(body.length));
    head.push(maskBit | 127, ...length);
  }
  return Buffer.concat([Buffer.from(head), mask ? Buffer.alloc(4) : Buffer.alloc(0), body]);
}

export class RawWebSocket {
  readonly #socket: Socket;
  readonly #frames: RawFrame[] = [];
  #bytes: Buffer = Buffer.alloc(0);
  #isOver = false;
  #wake: () => void = () => {};
  /** The answer to the handshake, its body left out. */
  readonly head: string;

  private constructor(socket: Socket, head: string, rest: Buffer) {
    this.#socket = socket;
    this.head = head;
    this.#onData(rest);
    socket.on("data", (data) => this.#onData(data));
    socket.on("close", () => {
      this.#isOver = true;
      this.#wake();
    });
  }

  static open(url: string, headers: Readonly<Record<string, string>> = {}): Promise<RawWebSocket> {
    const { hostname, port, pathname } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => {
        const lines = Object.entries({
          host: `${hostname}:${port}`,
          upgrade: "websocket",
          connection: "Upgrade",
          "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
          "sec-websocket-version": "13",
          "sec-websocket-protocol": "leafmesh.room.v1",
          ...headers,
        });
        socket.write(
          `GET ${pathname} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`,
        );
      });
      socket.on("error", reject);
      let bytes = Buffer.alloc(0);
      const onHead = (data: Buffer): void => {
        bytes = Buffer.concat([bytes, data]);
        const end = bytes.indexOf("\r\n\r\n");
        if (end < 0) return;
        socket.off("data", onHead);
        socket.off("error", reject);
        socket.on("error", () => {});
        resolve(new RawWebSocket(socket, bytes.subarray(0, end).toString(), bytes.subarray(end + 4)));
      };
      socket.on("data", onHead);
    });
  }

  write(bytes: Buffer): void {
    this.#socket.write(bytes);
  }

  text(frame: unknown): void {
    this.write(encodeFrame(OPCODE.text, JSON.stringify(frame)));
  }

  /** The next frame with this opcode; rejects when the socket ends without one. */
  async next(opcode: number): Promise<RawFrame> {
    for (;;) {
      const index = this.#frames.findIndex((frame) => frame.opcode === opcode);
      const [frame] = index < 0 ? [] : this.#frames.splice(index, 1);
      if (frame) return frame;
      if (this.#isOver) throw new Error(`the socket ended without opcode ${opcode}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The code of the service's close frame. */
  async closeCode(): Promise<number> {
    return (await this.next(OPCODE.close)).payload.readUInt16BE(0);
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #onData(data: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, data]);
    for (let frame = this.#take(); frame; frame = this.#take()) this.#frames.push(frame);
    this.#wake();
  }

  /** Frames of a server are not masked. */
  #take(): RawFrame | undefined {
    const bytes = this.#bytes;
    if (bytes.length < 2) return undefined;
    const short = bytes.readUInt8(1) & 0x7f;
    const start = short === 126 ? 4 : short === 127 ? 10 : 2;
    if (bytes.length < start) return undefined;
    const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
    if (bytes.length < start + length) return undefined;
    this.#bytes = bytes.subarray(start + length);
    return { opcode: bytes.readUInt8(0) & 0x0f, payload: bytes.subarray(start, start + length) };
  }
}
