/** What a conformance test works with: the HTTP half, rooms and sockets that are cleaned up after it. */
import {
  DEFAULT_ROOM_LIMITS,
  type OpenedRoom,
  openedRoomSchema,
  ROOM_PROTOCOL_VERSION,
  ROOM_VERSION_HEADER,
  type RoomLimits,
  type RoomSeat,
  type RoomStatus,
  roomErrorSchema,
  roomStatusSchema,
  type Secret,
  type WelcomeFrame,
} from "@leafmesh/protocol";
import { TestSocket, type TestSocketOptions } from "./test-socket.ts";
import { expectEqual, expectThat, Failure, shortened } from "./verdict.ts";

const HTTP_TIMEOUT_MS = 10_000;

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: unknown;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Another key than the right one; `null` for none. */
  readonly key?: string | null;
}

export interface SeatedSocket {
  readonly socket: TestSocket;
  readonly welcome: WelcomeFrame;
}

export interface OpenOptions {
  readonly ttl_s?: number;
  readonly join_within_s?: number;
}

export class Workbench {
  readonly #url: string;
  readonly #key: Secret;
  readonly #sockets = new Set<TestSocket>();
  readonly #rooms = new Set<string>();

  constructor(url: string, key: Secret) {
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
  }

  async call(method: string, path: string, options: CallOptions = {}): Promise<HttpAnswer> {
    const key = options.key === undefined ? this.#key.reveal() : options.key;
    let response: Response;
    try {
      response = await fetch(`${this.#url}${path}`, {
        method,
        redirect: "manual",
        signal: AbortSignal.timeout(HTTP_TIMEOUT_MS),
        headers: {
          [ROOM_VERSION_HEADER]: String(ROOM_PROTOCOL_VERSION),
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(options.body === undefined ? {} : { "content-type": "application/json" }),
          ...options.headers,
        },
        ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      });
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      throw new Failure(
        `${method} ${path} was not answered: ${cause instanceof Error ? cause.message : String(cause)}`,
      );
    }
    const text = await response.text();
    let json: unknown;
    try {
      json = text === "" ? undefined : JSON.parse(text);
    } catch {
      throw new Failure(
        `${method} ${path} answered ${response.status} with a body that is not JSON: ${shortened(text)}`,
      );
    }
    return { status: response.status, headers: response.headers, json };
  }

  /** A room that is deleted after the test. */
  async open(body: OpenOptions = {}, headers: Readonly<Record<string, string>> = {}): Promise<OpenedRoom> {
    const answer = await this.call("POST", "/v1/rooms", { body: { ttl_s: 120, ...body }, headers });
    expectEqual(answer.status, 201, "the status of POST /v1/rooms");
    const opened = openedRoomSchema.safeParse(answer.json);
    if (!opened.success) {
      const [issue] = opened.error.issues;
      throw new Failure(`the 201 of POST /v1/rooms: ${issue?.path.join(".")}: ${issue?.message}`);
    }
    this.#rooms.add(opened.data.room_id);
    return opened.data;
  }

  async status(room: OpenedRoom): Promise<RoomStatus> {
    const answer = await this.call("GET", `/v1/rooms/${room.room_id}`);
    expectEqual(answer.status, 200, "the status of GET /v1/rooms/{id}");
    const status = roomStatusSchema.safeParse(answer.json);
    expectThat(
      status.success,
      `GET /v1/rooms/{id} answered something else than a room's status: ${JSON.stringify(answer.json)}`,
    );
    return status.data;
  }

  delete(roomId: string): Promise<HttpAnswer> {
    return this.call("DELETE", `/v1/rooms/${roomId}`);
  }

  /** A socket that is cut after the test. */
  async connect(room: OpenedRoom, options?: TestSocketOptions): Promise<TestSocket> {
    const socket = await TestSocket.open(room.connect_url, options);
    this.#sockets.add(socket);
    return socket;
  }

  /** Joins with the seat's first token. */
  async join(room: OpenedRoom, seat: RoomSeat, options?: TestSocketOptions): Promise<SeatedSocket> {
    const token = seat === "mesh" ? room.mesh_token : room.device_token;
    return this.#seat(room, { token }, options);
  }

  async joinBoth(room: OpenedRoom): Promise<{ readonly mesh: SeatedSocket; readonly device: SeatedSocket }> {
    const mesh = await this.join(room, "mesh");
    const device = await this.join(room, "device");
    await mesh.socket.peer("joined");
    return { mesh, device };
  }

  async resume(room: OpenedRoom, key: string, recv: number): Promise<SeatedSocket> {
    return this.#seat(room, { resume: { key, recv } }, { lastSeq: recv });
  }

  /** Says hello and answers the code with which the service refuses. */
  async refusedWith(room: OpenedRoom, hello: Readonly<Record<string, unknown>>): Promise<number> {
    const socket = await this.connect(room);
    socket.hello(hello);
    const { code } = await socket.closed();
    expectThat(!socket.received.some(({ type }) => type === "welcome"), "a hello that must be refused was welcomed");
    return code;
  }

  async #seat(
    room: OpenedRoom,
    hello: Readonly<Record<string, unknown>>,
    options?: TestSocketOptions,
  ): Promise<SeatedSocket> {
    const socket = await this.connect(room, options);
    socket.hello(hello);
    return { socket, welcome: await socket.next("welcome") };
  }

  async cleanUp(): Promise<void> {
    await Promise.all([...this.#sockets].map((socket) => socket.drop()));
    await Promise.all([...this.#rooms].map((roomId) => this.delete(roomId).catch(() => undefined)));
  }
}

/** The announced limits; what a service does not say is the protocol's default. */
export function limitsOf(welcome: WelcomeFrame): RoomLimits {
  const announced = Object.entries(welcome.limits).filter(([, value]) => value !== undefined);
  return { ...DEFAULT_ROOM_LIMITS, ...Object.fromEntries(announced) };
}

/** The error body of a refused request, checked. */
export function errorOf(answer: HttpAnswer): { readonly code: string; readonly message: string } {
  const parsed = roomErrorSchema.safeParse(answer.json);
  expectThat(
    parsed.success,
    `HTTP ${answer.status} must carry {error: {code, message, temporary}}, got ${shortened(JSON.stringify(answer.json) ?? "nothing")}`,
  );
  return parsed.data.error;
}

export const taskFrame = (seq: number, more: Readonly<Record<string, unknown>> = {}) => ({
  type: "task",
  seq,
  id: "conformance",
  action: "test.echo",
  inputs: { text: "hello" },
  budget_ms: 60_000,
  ...more,
});

export const deviceFrame = (
  type: "accepted" | "progress" | "reply",
  seq: number,
  more: Readonly<Record<string, unknown>> = {},
) => ({ type, seq, id: "conformance", ...(type === "reply" ? { outcome: "done" } : {}), ...more });
