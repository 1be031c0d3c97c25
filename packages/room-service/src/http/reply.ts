import type { ServerResponse } from "node:http";
import { ROOM_PROTOCOL_VERSION, ROOM_VERSION_HEADER, type RoomErrorBody, type RoomErrorCode } from "@leafmesh/protocol";

/** An answer as a value. */
export interface Reply {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const CODE_STATUS = {
  invalid_request: 422,
  unsupported_version: 400,
  unauthorized: 401,
  forbidden: 403,
  plan_limit: 402,
  room_not_found: 404,
  room_closed: 410,
  conflict: 409,
  too_large: 413,
  rate_limited: 429,
  unavailable: 503,
} as const satisfies Record<RoomErrorCode, number>;

export interface FailureMore {
  /** When another status than the code's own says it better. */
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Further fields of the error. */
  readonly details?: Readonly<Record<string, unknown>>;
}

export function failure(code: RoomErrorCode, message: string, more: FailureMore = {}): Reply {
  const status = more.status ?? CODE_STATUS[code];
  const retryAfterS = more.retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(more.retryAfterMs / 1000));
  const body: RoomErrorBody = {
    error: {
      code,
      message,
      temporary: status === 429 || status >= 500,
      ...(retryAfterS === undefined ? {} : { retry_after_s: retryAfterS }),
      ...more.details,
    },
  };
  const retry = retryAfterS === undefined ? {} : { "retry-after": String(retryAfterS) };
  return { status, body, headers: { ...retry, ...more.headers } };
}

export function sendReply(response: ServerResponse, reply: Reply): void {
  if (response.headersSent || response.destroyed) return;
  const body = reply.body === undefined ? undefined : JSON.stringify(reply.body);
  response.writeHead(reply.status, {
    [ROOM_VERSION_HEADER]: String(ROOM_PROTOCOL_VERSION),
    "cache-control": "no-store",
    ...(body === undefined
      ? {}
      : { "content-type": "application/json; charset=utf-8", "content-length": String(Buffer.byteLength(body)) }),
    ...reply.headers,
  });
  response.end(body);
}

/** The answer to a request that asked for an upgrade and does not get it: head and body, then the end. */
export function refusalOfUpgrade(reply: Reply, reasonPhrase: string): string {
  const body = JSON.stringify(reply.body ?? {});
  const headers = {
    connection: "close",
    [ROOM_VERSION_HEADER]: String(ROOM_PROTOCOL_VERSION),
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    ...reply.headers,
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${reply.status} ${reasonPhrase}\r\n${head.join("")}\r\n${body}`;
}
