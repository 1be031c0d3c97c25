import type { Network } from "@leafmesh/protocol";
import type { buildConnector } from "undici";

/** A connector whose sockets go where `network` leads them, with the names of the hosts that were called. */
export function routed(connector: buildConnector.connector, network: Network | undefined): buildConnector.connector {
  if (!network) return connector;
  return (options, callback) => {
    const { hostname, protocol, port } = options;
    const target = network.route(hostname, Number(port || (protocol === "https:" ? 443 : 80)));
    if (!target) return connector(options, callback);
    const { host, port: targetPort } = target;
    const servername = options.servername ?? hostname;
    connector({ ...options, servername, host, hostname: host, port: String(targetPort) }, callback);
  };
}
