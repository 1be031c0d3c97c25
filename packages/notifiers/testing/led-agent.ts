/** Leads a client of Node's own `https` to a played vendor: everything stays as it is but the socket. */
import { Agent, type AgentOptions } from "node:https";
import { connect } from "node:tls";
import type { Network } from "@leafmesh/protocol";

export function ledAgent({ ca, route }: Network, host: string): Agent {
  class Led extends Agent {
    override createConnection(options: AgentOptions) {
      const { host: address, port } = route(host, 443) ?? {};
      return connect({ host: address, port, ca, servername: options.servername ?? host });
    }
  }
  return new Led();
}
