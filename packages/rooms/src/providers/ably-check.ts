/** Whether a key can do what rooms need, asked without publishing anything. https://ably.com/docs/api/rest-sdk/authentication */
import type { Clock } from "@leafmesh/protocol";
import * as z from "zod";
import type { CheckResult } from "../contract.ts";
import { untilAborted } from "../patience.ts";
import { ablyRoomError } from "./ably-errors.ts";
import { type AblyEndpoint, placeOptions } from "./ably-link.ts";
import { type AblyKey, ROOM_RIGHTS } from "./ably-token.ts";

const PROBE_CHANNEL = "leafmesh:probe";
const TOKEN_LIFETIME_MS = 60_000;

const granted = z.record(z.string(), z.array(z.string()));

/** Ably answers with the rights that the key has of those that were asked for. */
export async function checkAbly(
  { key, place }: { readonly key: AblyKey; readonly place: AblyEndpoint | undefined; readonly clock: Clock },
  signal: AbortSignal,
): Promise<CheckResult> {
  const ably = await import("ably");
  const client = new ably.Rest({
    ...placeOptions(place),
    key: `${key.name}:${key.secret.reveal()}`,
    logLevel: 0,
    useTokenAuth: true,
  });
  try {
    const token = await untilAborted(
      client.auth.requestToken({
        ttl: TOKEN_LIFETIME_MS,
        capability: JSON.stringify({ [PROBE_CHANNEL]: ROOM_RIGHTS }),
      }),
      signal,
      "Ably",
    );
    const rights = granted.parse(JSON.parse(String(token.capability)))[PROBE_CHANNEL] ?? [];
    const missing = ROOM_RIGHTS.filter((right) => !rights.includes(right) && !rights.includes("*"));
    if (missing.length === 0) return { status: "active" };
    const reason = `The Ably key may not ${missing.join(" or ")} on leafmesh:* channels: add it in your Ably app → API Keys.`;
    return { status: "failing", reason };
  } catch (error) {
    const { kind, message } = ablyRoomError(error);
    const isRefused = kind === "bad_credential" || kind === "plan_limit" || kind === "mismatch";
    return { status: isRefused ? "failing" : "readable", reason: message };
  }
}
