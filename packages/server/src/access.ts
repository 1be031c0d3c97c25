/** Who may call: API keys, the loopback rule, and what a browser page from elsewhere may not do. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { ApiKey, ServerSettings } from "@leafmesh/core";
import { ApiError } from "./errors.ts";
import type { Caller } from "./route.ts";

const MAX_KEY_CHARACTERS = 512;

export interface AccessControl {
  /** Throws 401 `unauthorized`. */
  authenticate(request: IncomingMessage): Caller;
  /** Throws 403 for a Host or Origin that has no business here. */
  checkOrigin(request: IncomingMessage): void;
  /** The value of `access-control-allow-origin`, when the request comes from an allowed page. */
  allowedOrigin(request: IncomingMessage): string | undefined;
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** Keys are looked up by their SHA-256, so neither length nor content of a wrong key changes the path taken. */
export function createAccessControl(settings: ServerSettings): AccessControl {
  const owners = new Map(settings.apiKeys.map((key: ApiKey) => [digest(key.key.reveal()), key.name]));
  const corsOrigins = new Set(settings.corsOrigins);
  const publicHost = settings.publicUrl ? new URL(settings.publicUrl).host : undefined;

  const allowedOrigin = (request: IncomingMessage): string | undefined => {
    const origin = request.headers.origin;
    return origin && corsOrigins.has(origin) ? origin : undefined;
  };

  return {
    authenticate(request) {
      if (owners.size === 0) return { owner: undefined };
      const key = request.headers["x-api-key"];
      const owner = typeof key === "string" && key.length <= MAX_KEY_CHARACTERS ? owners.get(digest(key)) : undefined;
      if (owner === undefined) {
        throw new ApiError(401, "unauthorized", "Send one of the mesh's API keys in the header X-API-Key.");
      }
      return { owner };
    },

    checkOrigin(request) {
      const { host, origin } = request.headers;
      // Without keys anything that reaches the socket may call, so a page that rebinds a name to 127.0.0.1 must not.
      if (owners.size === 0 && !(host && (isLoopback(hostName(host)) || host === publicHost))) {
        throw new ApiError(
          403,
          "forbidden_host",
          "This mesh has no API keys and answers only to localhost and to server.public_url.",
        );
      }
      if (origin === undefined || corsOrigins.has(origin)) return;
      if (origin !== "null" && URL.canParse(origin) && new URL(origin).host === host) return;
      throw new ApiError(403, "forbidden_origin", "Add this page's origin to server.cors_origins to call from it.");
    },

    allowedOrigin,
  };
}

function hostName(host: string): string {
  const name = host.startsWith("[") ? host.slice(1, host.indexOf("]")) : host.replace(/:\d+$/, "");
  return name.toLowerCase();
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
