/** Leads every TLS connection of this process, for clients that have no place for an address, an agent or an authority. */
import tls, { type ConnectionOptions } from "node:tls";
import type { Network } from "@leafmesh/protocol";

/** Names and certificate checks stay what they are; only the socket goes elsewhere. For a process that does nothing else. */
export function leadAll({ ca, route }: Network): void {
  const connect = tls.connect;
  const led = (...args: unknown[]) => {
    // Called as (options), (port, options) and (port, host, options), the port now and then as a text.
    const options: ConnectionOptions = Object.assign({}, ...args.filter((arg) => typeof arg === "object"));
    const [port, host] = args.filter((arg) => typeof arg !== "object" && typeof arg !== "function");
    const name = String(host ?? options.host ?? "localhost");
    const target = route(name, Number(port ?? options.port ?? 443));
    if (!target) throw new Error(`nobody plays ${name}`);
    return connect({ ...options, ...target, ca, servername: name });
  };
  tls.connect = led as typeof tls.connect;
}
