/** The HTTP half of the room protocol, as a mesh speaks it (docs/room-protocol.md). */
import {
  type MeshToken,
  meshTokenSchema,
  type OpenedRoom,
  type OpenRoomBody,
  openedRoomSchema,
  ROOM_PROTOCOL_VERSION,
  ROOM_VERSION_HEADER,
  type RoomStatus,
  roomErrorSchema,
  roomStatusSchema,
  type Secret,
} from "@leafmesh/protocol";
import type * as z from "zod";
import { RoomError, type RoomErrorKind } from "../contract.ts";
import { connectUrlIssue } from "./addresses.ts";
import { createJsonClient, type JsonAnswer, type JsonRequest } from "./http-json.ts";

/** A wait that a service asks for is believed up to this. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** All throw {@link RoomError} and nothing else, and honour their signal. */
export interface RoomServiceClient {
  /** `idempotencyKey` makes a repeat of the same opening answer with the same room. */
  open(body: OpenRoomBody, idempotencyKey: string, signal: AbortSignal): Promise<OpenedRoom>;
  /** `undefined`: the service does not know the room, or not any more. */
  status(roomId: string, signal: AbortSignal): Promise<RoomStatus | undefined>;
  /** A new token for the mesh's seat; `undefined` when the service offers none or the room is over. */
  meshToken(roomId: string, signal: AbortSignal): Promise<MeshToken | undefined>;
  /** Whether the room was there to be closed. */
  delete(roomId: string, signal: AbortSignal): Promise<boolean>;
  close(): void;
}

export function createRoomServiceClient(options: { readonly url: string; readonly apiKey: Secret }): RoomServiceClient {
  const http = createJsonClient();
  const base = options.url.replace(/\/+$/, "");

  const call = (
    method: JsonRequest["method"],
    path: string,
    signal: AbortSignal,
    more: { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> } = {},
  ): Promise<JsonAnswer> =>
    http.send(
      {
        method,
        url: `${base}/v1/rooms${path}`,
        body: more.body,
        headers: {
          ...more.headers,
          authorization: `Bearer ${options.apiKey.reveal()}`,
          [ROOM_VERSION_HEADER]: String(ROOM_PROTOCOL_VERSION),
        },
      },
      signal,
    );

  const parsed = <Body>(answer: JsonAnswer, status: number, schema: z.ZodType<Body>): Body => {
    if (answer.status !== status) throw refusal(answer);
    const body = schema.safeParse(answer.json);
    if (body.success) return body.data;
    const field = body.error.issues[0]?.path.join(".") || "the body";
    throw new RoomError("mismatch", `The room service does not speak the room protocol: ${field} is missing or wrong.`);
  };

  const checkedConnectUrl = <Body extends { readonly connect_url: string }>(body: Body): Body => {
    const issue = connectUrlIssue(body.connect_url, base);
    if (issue) throw new RoomError("mismatch", `The room service gives a connect_url that ${issue}.`);
    return body;
  };

  return {
    async open(body, idempotencyKey, signal) {
      const request = { body, headers: { "idempotency-key": idempotencyKey } };
      let answer: JsonAnswer;
      try {
        answer = await call("POST", "", signal, request);
      } catch (error) {
        // A kept connection may have been closed under the request; the key makes the repeat harmless.
        if (signal.aborted || !(error instanceof RoomError) || error.kind !== "unavailable") throw error;
        answer = await call("POST", "", signal, request);
      }
      return checkedConnectUrl(parsed(answer, 201, openedRoomSchema));
    },
    async status(roomId, signal) {
      const answer = await call("GET", `/${encodeURIComponent(roomId)}`, signal);
      return isGone(answer) ? undefined : parsed(answer, 200, roomStatusSchema);
    },
    async meshToken(roomId, signal) {
      const answer = await call("POST", `/${encodeURIComponent(roomId)}/mesh-token`, signal);
      if (isGone(answer) || answer.status === 405) return undefined;
      return checkedConnectUrl(parsed(answer, 201, meshTokenSchema));
    },
    async delete(roomId, signal) {
      const answer = await call("DELETE", `/${encodeURIComponent(roomId)}`, signal);
      if (isGone(answer)) return false;
      if (answer.status !== 204) throw refusal(answer);
      return true;
    },
    close: () => http.close(),
  };
}

function isGone({ status }: JsonAnswer): boolean {
  return status === 404 || status === 410;
}

const KIND_OF_STATUS: Readonly<Record<number, RoomErrorKind>> = {
  401: "bad_credential",
  402: "plan_limit",
  403: "bad_credential",
  413: "too_big",
  429: "rate",
};

const SENTENCE: Readonly<Record<RoomErrorKind, string>> = {
  bad_credential: "The room service refused the API key",
  plan_limit: "The plan of the room service is used up",
  rate: "The room service asks for a pause",
  too_big: "The room service finds the request too large",
  unavailable: "The room service has a problem of its own",
  mismatch: "The room service does not speak the room protocol",
};

function refusal(answer: JsonAnswer): RoomError {
  const { status } = answer;
  const error = roomErrorSchema.safeParse(answer.json).data?.error;
  // The code is the service's word; only what looks like one is repeated.
  const code = error && /^[a-z0-9_.-]{1,64}$/i.test(error.code) ? error.code : undefined;
  const kind = KIND_OF_STATUS[status] ?? (status >= 500 ? "unavailable" : "mismatch");
  const redirect = status >= 300 && status < 400 ? "; it answers with a redirect, enter the final address" : "";
  return new RoomError(kind, `${SENTENCE[kind]} (HTTP ${status}${code ? ` ${code}` : ""})${redirect}.`, {
    code: code ?? String(status),
    retryAfterMs: retryAfterMs(answer, error?.retry_after_s),
  });
}

/** Seconds in the body or the header (a date there is not looked at); nonsense counts as not said. */
function retryAfterMs(answer: JsonAnswer, inBody: number | undefined): number | undefined {
  const seconds = inBody ?? Number(answer.headers["retry-after"] ?? Number.NaN);
  if (!(seconds >= 0)) return undefined;
  return Math.min(seconds * 1000, LONGEST_RETRY_AFTER_MS);
}
