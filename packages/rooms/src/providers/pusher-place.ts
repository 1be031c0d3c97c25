/** Where an app of Pusher is: a cluster of Pusher's, or a server of the operator's own. */
import { isLoopbackHost } from "@leafmesh/protocol";

export interface PusherPlace {
  /** For the HTTP API. */
  readonly host: string;
  readonly apiUrl: string;
  /** What tells Pusher's client where to go. Plain text to this machine alone. */
  readonly client: {
    readonly cluster: string;
    readonly forceTLS: boolean;
    readonly wsHost?: string;
    readonly wsPort?: number;
    readonly wssPort?: number;
  };
  /** As the operator wrote it, where it is no cluster of Pusher's. */
  readonly own: string | undefined;
}

/** `undefined` for what is neither. https://pusher.com/docs/channels/miscellaneous/clusters/ */
export function parsePusherPlace(text: string): PusherPlace | undefined {
  if (/^[a-z][a-z0-9-]{0,31}$/.test(text) && text !== "localhost") {
    const host = `api-${text}.pusher.com`;
    return {
      host,
      apiUrl: `https://${host}`,
      client: { cluster: text, forceTLS: true },
      own: undefined,
    };
  }
  const [, host, port] = /^([A-Za-z0-9.-]{1,253})(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (host === undefined || Number(port ?? 0) > 65_535) return undefined;
  const isPlain = isLoopbackHost(host);
  const socketPort = Number(port ?? (isPlain ? 80 : 443));
  return {
    host,
    apiUrl: `${isPlain ? "http" : "https"}://${host}:${socketPort}`,
    client: {
      cluster: "own",
      forceTLS: !isPlain,
      wsHost: host,
      wsPort: socketPort,
      wssPort: socketPort,
    },
    own: text,
  };
}
