/** The address of a broker, taken apart once so that no library reads meaning into the rest of it. */
import { isLoopbackHost } from "@leafmesh/protocol";

export type MqttScheme = "mqtt" | "mqtts" | "ws" | "wss";

export interface BrokerAddress {
  readonly scheme: MqttScheme;
  /** Whether the connection is TLS. */
  readonly secure: boolean;
  /** Without the brackets of an IPv6 address. */
  readonly host: string;
  readonly port: number;
  /** `ws:` and `wss:` only; `/` when none was given. */
  readonly path: string;
  /** `host:port`, for messages and logs. */
  readonly label: string;
}

export type ParsedAddress =
  | { readonly ok: true; readonly address: BrokerAddress }
  | { readonly ok: false; readonly issue: string };

const DEFAULT_PORTS: Readonly<Record<MqttScheme, number>> = { mqtt: 1883, mqtts: 8883, ws: 80, wss: 443 };

const OTHER_NAMES: Readonly<Record<string, string>> = {
  tcp: "mqtt",
  ssl: "mqtts",
  tls: "mqtts",
  http: "ws",
  https: "wss",
};

/** Takes `mqtts://broker.example.com:8883` apart, or says in one sentence what is wrong with it. */
export function parseBrokerAddress(text: string): ParsedAddress {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme === undefined) return wrong("must be an address such as mqtts://broker.example.com:8883");
  if (!isScheme(scheme)) return wrong(schemeIssue(scheme));

  // Read as http, so that every way to write an IP address comes out in its one canonical form.
  const rest = text.slice(scheme.length);
  if (!URL.canParse(`http${rest}`)) return wrong("is not a valid address");
  const url = new URL(`http${rest}`);
  if (url.username !== "" || url.password !== "") {
    return wrong("must not hold a user name or password; use the fields username and password");
  }
  if (url.search !== "") return wrong("must not have a query (?...): nothing in it is used");
  if (url.hash !== "") return wrong("must not have a fragment (#...)");
  const overWebSocket = scheme === "ws" || scheme === "wss";
  if (!overWebSocket && url.pathname !== "/")
    return wrong(`must not have a path with ${scheme}:; only ws: and wss: do`);

  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = portOf(rest) ?? DEFAULT_PORTS[scheme];
  if (port === 0) return wrong("must not have port 0");
  return {
    ok: true,
    address: {
      scheme,
      secure: scheme === "mqtts" || scheme === "wss",
      host,
      port,
      path: url.pathname,
      label: `${url.hostname}:${port}`,
    },
  };
}

/** Whether the address is this very machine. Resolves no name. */
export function isLoopback({ host }: BrokerAddress): boolean {
  return isLoopbackHost(host);
}

function isScheme(text: string): text is MqttScheme {
  return Object.hasOwn(DEFAULT_PORTS, text);
}

function schemeIssue(scheme: string): string {
  const meant = OTHER_NAMES[scheme];
  return meant
    ? `must start with ${meant}:// instead of ${scheme}://`
    : "must start with mqtt://, mqtts://, ws:// or wss://";
}

/** The port as it is written: `URL` leaves out the one that is http's default. */
function portOf(rest: string): number | undefined {
  const port = /^:\/\/[^/?#]*:(\d+)(?=[/?#]|$)/.exec(rest)?.[1];
  return port === undefined ? undefined : Number(port);
}

function wrong(issue: string): ParsedAddress {
  return { ok: false, issue };
}
