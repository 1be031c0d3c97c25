/** Configurations that tests ask for by what they need. */
import { type Authority, createAuthority, type IssuedCertificate } from "./authority.ts";
import { type Broker, type BrokerPlace, startBroker } from "./broker.ts";

export interface MosquittoOptions {
  /** Login → password. Left out, anybody may connect. */
  readonly users?: Readonly<Record<string, string>> | undefined;
  /** Text of the ACL file. Left out, everybody may do everything. */
  readonly acl?: string | undefined;
  /** More lines for mosquitto.conf, such as `max_packet_size 4096`. */
  readonly settings?: readonly string[] | undefined;
}

export interface Mosquitto extends Broker<"tcp"> {
  /** `mqtt://127.0.0.1:port` */
  readonly url: string;
}

/** A broker without TLS. */
export async function startMosquitto(options: MosquittoOptions = {}): Promise<Mosquitto> {
  const broker = await startBroker({
    listeners: ["tcp"],
    users: options.users,
    files: filesOf(options),
    config: (place) => [...commonLines(options, place), `listener ${place.ports.tcp} 127.0.0.1`].join("\n"),
  });
  return Object.assign(broker, { url: `mqtt://127.0.0.1:${broker.ports.tcp}` });
}

export interface TlsMosquitto extends Broker<"tls" | "wss" | "certificate" | "tcp"> {
  /** Issues client certificates; its `ca` is what clients have to trust. */
  readonly authority: Authority;
  /** By user name and password. Each is `scheme://localhost:port`. */
  readonly urls: {
    readonly tls: string;
    readonly wss: string;
    /** Asks for a client certificate, whose common name is the user name. */
    readonly certificate: string;
    /** Without TLS. */
    readonly tcp: string;
  };
}

/**
 * A broker behind TLS with an authority of its own. The server certificate is for `localhost` alone, so that
 * `127.0.0.1` is a wrong host.
 */
export async function startTlsMosquitto(options: MosquittoOptions = {}): Promise<TlsMosquitto> {
  const authority = await createAuthority();
  const server = await authority.issue({ commonName: "localhost", hosts: ["localhost"] });
  const broker = await startBroker({
    listeners: ["tls", "wss", "certificate", "tcp"],
    users: options.users,
    files: { ...filesOf(options), ...serverFiles(authority, server) },
    config: (place) =>
      [
        ...commonLines(options, place),
        `listener ${place.ports.tls} 127.0.0.1`,
        ...tlsLines(place.folder),
        `listener ${place.ports.wss} 127.0.0.1`,
        "protocol websockets",
        ...tlsLines(place.folder),
        `listener ${place.ports.certificate} 127.0.0.1`,
        ...tlsLines(place.folder),
        `cafile ${place.folder}/ca.pem`,
        "require_certificate true",
        "use_identity_as_username true",
        `listener ${place.ports.tcp} 127.0.0.1`,
      ].join("\n"),
  });
  const { ports, stop } = broker;
  return Object.assign(broker, {
    authority,
    urls: {
      tls: `mqtts://localhost:${ports.tls}`,
      wss: `wss://localhost:${ports.wss}`,
      certificate: `mqtts://localhost:${ports.certificate}`,
      tcp: `mqtt://localhost:${ports.tcp}`,
    },
    async stop() {
      await stop();
      await authority.close();
    },
  });
}

function filesOf({ acl }: MosquittoOptions): Record<string, string> {
  return acl === undefined ? {} : { acl };
}

function serverFiles({ ca }: Authority, { cert, key }: IssuedCertificate): Record<string, string> {
  return { "ca.pem": ca, "server.pem": cert, "server.key": key };
}

function tlsLines(folder: string): readonly string[] {
  return [`certfile ${folder}/server.pem`, `keyfile ${folder}/server.key`];
}

function commonLines(
  { users, acl, settings = [] }: MosquittoOptions,
  { folder }: BrokerPlace<string>,
): readonly string[] {
  return [
    "per_listener_settings false",
    "set_tcp_nodelay true",
    "log_dest stderr",
    "log_type all",
    `allow_anonymous ${users === undefined}`,
    ...(users === undefined ? [] : [`password_file ${folder}/passwords`]),
    ...(acl === undefined ? [] : [`acl_file ${folder}/acl`]),
    ...settings,
  ];
}
