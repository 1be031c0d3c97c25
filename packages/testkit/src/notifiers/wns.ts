/** Plays Entra and the push service of Windows: it issues access tokens, and checks each header of a notification. */
import { randomUUID } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import type { NotifierDouble, ReceivedRing } from "../suites/notifier/under-test.ts";
import type { VendorReply } from "./replies.ts";
import { readToast } from "./toast-xml.ts";
import { startVendorServer, type VendorRequest } from "./vendor-server.ts";

export interface PlayedWindowsApp {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
}

export interface PlayedWns {
  readonly app: PlayedWindowsApp;
  /** By channel URI: open, expired, or of an app that this application may not send to. Others are unknown. */
  readonly channels: Readonly<Record<string, "open" | "expired" | "another_app">>;
}

export interface WnsDouble extends NotifierDouble {
  /** Access tokens that it issued, and when each ends. */
  readonly issued: ReadonlyMap<string, number>;
}

const LOGIN = "login.microsoftonline.com";
const SCOPE = "https://wns.windows.com/.default";
const TOKEN_SECONDS = 86_399;
const MAX_BODY_BYTES = 5000;
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  "wns/toast": "text/xml",
  "wns/raw": "application/octet-stream",
};

export async function startWns(clock: Clock, { app, channels }: PlayedWns): Promise<WnsDouble> {
  const rings: ReceivedRing[] = [];
  const issued = new Map<string, number>();

  const issue = ({ path, text, headers }: VendorRequest): VendorReply => {
    const form = new URLSearchParams(text);
    const [, tenant] = /^\/([^/]+)\/oauth2\/v2\.0\/token$/.exec(path) ?? [];
    if (tenant !== app.tenantId) return entraRefusal(400, "invalid_request", 90002);
    if (headers["content-type"] !== "application/x-www-form-urlencoded")
      return entraRefusal(400, "invalid_request", 900144);
    if (form.get("grant_type") !== "client_credentials") return entraRefusal(400, "unsupported_grant_type", 70003);
    if (form.get("client_id") !== app.clientId) return entraRefusal(400, "unauthorized_client", 700016);
    if (form.get("client_secret") !== app.clientSecret) return entraRefusal(401, "invalid_client", 7000215);
    if (form.get("scope") !== SCOPE) return entraRefusal(400, "invalid_scope", 70011);
    const access_token = `eyJ0eXAi.${randomUUID()}`;
    issued.set(access_token, clock.nowMs() + TOKEN_SECONDS * 1000);
    return { status: 200, body: { token_type: "Bearer", expires_in: TOKEN_SECONDS, access_token } };
  };

  const take = ({ method, host, target, headers, body, text }: VendorRequest): VendorReply => {
    if (method !== "POST") return answer(405);
    const [, token = ""] = /^Bearer (\S+)$/.exec(headers.authorization ?? "") ?? [];
    if (!((issued.get(token) ?? 0) > clock.nowMs())) return answer(401, { "x-wns-error-description": "Bad token" });
    const uri = `https://${host}${target}`;
    const channel = Object.hasOwn(channels, uri) ? channels[uri] : undefined;
    if (!channel) return answer(404, { "x-wns-error-description": "Channel not recognized" });
    if (channel === "expired") return answer(410, { "x-wns-error-description": "Channel expired" });
    if (channel === "another_app") return answer(403, { "x-wns-error-description": "Not in allowed receiving apps" });

    const header = (name: string): string | undefined => headers[`x-wns-${name}`]?.toString();
    const type = header("type") ?? "";
    const cache = header("cache-policy") ?? "no-cache";
    const ttl = header("ttl");
    const isWrong =
      headers["transfer-encoding"] !== undefined ||
      headers.expect !== undefined ||
      headers["content-length"] !== String(body.byteLength) ||
      CONTENT_TYPES[type] === undefined ||
      headers["content-type"] !== CONTENT_TYPES[type] ||
      !/^[1-4]$/.test(header("priority") ?? "1") ||
      !/^(?:no-)?cache$/.test(cache) ||
      !/^\d{1,8}$/.test(ttl ?? "1") ||
      (ttl === "0" && cache === "cache") ||
      !/^(?:true|false)$/.test(header("requestforstatus") ?? "false") ||
      header("suppresspopup") !== undefined ||
      header("tag") !== undefined;
    if (isWrong) return answer(400, { "x-wns-error-description": "One or more headers are incorrect" });
    if (body.byteLength > MAX_BODY_BYTES) return answer(413);

    const isShown = type === "wns/toast";
    const received = isShown ? inToast(text) : text;
    if (received === undefined) return answer(400, { "x-wns-error-description": "The payload is no toast" });
    const ttlSeconds = ttl === undefined ? undefined : Number(ttl);
    rings.push({ body: received, to: uri, isShown, ttlSeconds, collapseKey: undefined });
    const asked = header("requestforstatus") === "true" ? { "x-wns-deviceconnectionstatus": "connected" } : {};
    return answer(200, { "x-wns-status": "received", ...asked });
  };

  const server = await startVendorServer({
    hosts: [LOGIN, "*.notify.windows.com"],
    handle: (request) => (request.host === LOGIN ? issue(request) : take(request)),
  });
  return {
    server,
    rings,
    issued,
    purposeOf: ({ host }) => (host === LOGIN ? "credential" : "ring"),
    close: () => server.close(),
  };
}

/** The ring of a toast whose choices all carry the same one. */
function inToast(xml: string): string | undefined {
  const toast = readToast(xml);
  const [visual, actions, ...more] = toast?.children ?? [];
  if (toast?.name !== "toast" || visual?.name !== "visual" || actions?.name !== "actions" || more.length > 0) return;
  const texts = visual.children.flatMap(({ children }) => children.filter(({ name }) => name === "text"));
  if (visual.children[0]?.attributes.template !== "ToastGeneric" || texts.length === 0) return;
  const [allow, deny] = actions.children.map(({ attributes }) => attributes.arguments ?? "");
  const ring = toast.attributes.launch?.replace(/^ask /, "");
  return allow === `allow ${ring}` && deny === `deny ${ring}` ? ring : undefined;
}

function answer(status: number, headers: Readonly<Record<string, string>> = {}): VendorReply {
  return { status, headers: { "x-wns-msg-id": "7A6C2B1D4E5F6071", "x-wns-debug-trace": "BN3", ...headers }, body: "" };
}

/** As Entra refuses an application, https://learn.microsoft.com/entra/identity-platform/reference-error-codes */
export function entraRefusal(status: number, error: string, code: number): VendorReply {
  const error_description = `AADSTS${code}: refused. Trace ID: 0 Correlation ID: 0 Timestamp: 2026-01-01 00:00:00Z`;
  return { status, body: { error, error_description, error_codes: [code], trace_id: randomUUID() } };
}
