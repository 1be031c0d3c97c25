import type { IncomingMessage } from "node:http";
import { type OpenedRoom, type OpenRoomBody, openRoomBodySchema } from "@leafmesh/protocol";
import { TokenBuckets } from "../token-bucket.ts";
import { readJson } from "./body.ts";
import type { HttpContext } from "./handler.ts";
import { IdempotencyKeys } from "./idempotency.ts";
import { failure, type Reply } from "./reply.ts";

const MAX_IDEMPOTENCY_KEY = 255;

/** `POST /v1/rooms` for a request whose key is known. */
export type OpenRoomRoute = (request: IncomingMessage, owner: string) => Promise<Reply>;

export function createOpenRoomRoute(context: HttpContext): OpenRoomRoute {
  const { clock, bounds, rooms } = context;
  const opens = new TokenBuckets({ burst: bounds.opensBurst, perSecond: bounds.opensPerSecond });
  const idempotency = new IdempotencyKeys<OpenedRoom>(bounds.rooms + bounds.tombstones);

  return async (request, owner) => {
    const key = request.headers["idempotency-key"];
    if (Array.isArray(key) || (key !== undefined && (key.length === 0 || key.length > MAX_IDEMPOTENCY_KEY))) {
      return failure("invalid_request", `Idempotency-Key: 1 to ${MAX_IDEMPOTENCY_KEY} characters, once`);
    }
    const body = await readJson(request, clock);
    if (!body.ok) return body.reply;
    const parsed = openRoomBodySchema.safeParse(body.json);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return failure("invalid_request", issue ? `${issue.path.join(".") || "body"}: ${issue.message}` : "invalid body");
    }
    if (key === undefined) return refusal(owner) ?? opened(await open(parsed.data, owner));
    return once(key, parsed.data, owner);
  };

  async function once(key: string, body: OpenRoomBody, owner: string): Promise<Reply> {
    const text = JSON.stringify(body);
    const before = idempotency.find(owner, key);
    if (before) {
      if (before.body !== text) return failure("conflict", "this Idempotency-Key was used with another body");
      return before.result
        ? opened(await before.result)
        : failure("room_closed", "the room of this Idempotency-Key is closed");
    }
    const refused = refusal(owner);
    if (refused) return refused;
    const result = open(body, owner, () => idempotency.end(owner, key));
    idempotency.remember(owner, key, { body: text, result });
    try {
      return opened(await result);
    } catch (error) {
      idempotency.forget(owner, key);
      throw error;
    }
  }

  function refusal(owner: string): Reply | undefined {
    const taken = opens.take(owner, clock.monotonicMs());
    if (!taken.taken) {
      return failure("rate_limited", "too many rooms opened at once with this key", {
        retryAfterMs: taken.retryAfterMs,
      });
    }
    switch (rooms.fullFor(owner)) {
      case "owner":
        return failure("rate_limited", `${bounds.roomsPerKey} rooms are open with this key`, { retryAfterMs: 5000 });
      case "service":
        return failure("unavailable", "the service holds as many rooms as it may", { retryAfterMs: 5000 });
      default:
        return undefined;
    }
  }

  async function open(body: OpenRoomBody, owner: string, onEnded?: () => void): Promise<OpenedRoom> {
    const { host, device, meshToken } = await rooms.open({
      owner,
      lifetimeMs: body.ttl_s * 1000,
      joinWithinMs: body.join_within_s * 1000,
      purpose: body.purpose,
      approval: body.approval,
      deviceRef: body.device?.ref,
      meshToken: true,
      onEnded,
    });
    return {
      room_id: host.state.id,
      expires_at: host.state.expiresAt,
      connect_url: context.connectUrl(),
      mesh_token: meshToken,
      device_token: device.token,
      device_token_expires_at: Math.floor(device.expiresAtMs / 1000),
      limits: context.limits,
    };
  }
}

function opened(body: OpenedRoom): Reply {
  return { status: 201, body };
}
