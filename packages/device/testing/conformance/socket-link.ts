/** A device's WebSocket link in a LeafMesh room, which can be cut and can say what the kit would not. */
import type { JoinInfo } from "@leafmesh/protocol";
import { WebSocket } from "ws";
import { leafmeshConnector } from "../../src/connectors/leafmesh.ts";
import type { Link } from "./devices.ts";

export interface SocketLink extends Link {
  /** Says `text` from the device's seat, unchecked. */
  say(text: string): Promise<void>;
  /** The last message again. */
  repeat(): Promise<void>;
}

/** `around`: the way that the device takes to the room. */
export function socketLink(around: (join: JoinInfo) => JoinInfo = (join) => join): SocketLink {
  const open = new Set<Wire>();
  let isDown = false;
  let current: Wire | undefined;

  class Wire extends WebSocket {
    /** The last numbered frame. */
    last = { seq: 0, text: "" };

    constructor(url: string, protocols: string) {
      if (isDown) throw new Error("the network is down");
      super(url, protocols);
      current = this;
      open.add(this);
      this.on("close", () => open.delete(this));
    }

    override send(text: string): void {
      const { seq, type } = JSON.parse(text) as { seq?: number; type: string };
      if (seq !== undefined && type !== "ack") this.last = { seq, text };
      super.send(text);
    }

    sayRaw(text: string): Promise<void> {
      return new Promise((resolve, reject) => super.send(text, (error) => (error ? reject(error) : resolve())));
    }
  }

  const wire = (): Wire => {
    if (!current) throw new Error("the device has not joined");
    return current;
  };
  const connector = leafmeshConnector({ WebSocket: Wire, random: () => 0.5 });

  return {
    connector: {
      providers: connector.providers,
      join: (ring, options) => connector.join({ ...ring, join: around(ring.join) }, options),
      refuse: (ring, signal) => connector.refuse({ ...ring, join: around(ring.join) }, signal),
    },
    cut() {
      isDown = true;
      for (const socket of open) socket.terminate();
    },
    restore() {
      isDown = false;
    },
    say: (text) => wire().sayRaw(numbered(text, wire().last.seq + 1)),
    repeat: () => wire().sayRaw(wire().last.text),
    close() {
      for (const socket of open) socket.terminate();
    },
  };
}

/** With the number that the protocol wants, where there is a place for it. */
function numbered(text: string, seq: number): string {
  try {
    return JSON.stringify({ ...JSON.parse(text), seq });
  } catch {
    return text;
  }
}
