/** What a played vendor answers, and the ways in which real ones fail to. */
import type { ServerResponse } from "node:http";

export interface VendorReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** An object goes out as JSON. */
  readonly body?: string | Uint8Array | object | undefined;
}

/**
 * - `hang`: takes the request and never answers.
 * - `stall`: answers the head and half of a body, and no more.
 * - `cut`: closes the connection instead of answering.
 * - `garbage`: status 200 with a page that is no answer of any vendor.
 * - `flood`: status 200 with a body of 100 MB.
 */
export type VendorFault = "hang" | "stall" | "cut" | "garbage" | "flood";

const FLOOD_BYTES = 100 * 1024 * 1024;
const FLOOD_PIECE = Buffer.alloc(64 * 1024, "x");

/** Resolves when all that will be written has been. `cut` closes the connection. */
export async function writeReply(
  response: ServerResponse,
  reply: VendorReply | VendorFault,
  cut: () => void,
): Promise<void> {
  switch (reply) {
    case "hang":
      return;
    case "stall":
      response.writeHead(200, { "content-type": "application/json" });
      response.write('{"name":"');
      return;
    case "cut":
      cut();
      return;
    case "garbage":
      response.writeHead(200, { "content-type": "application/json" }).end("<!doctype html><title>Maintenance</title>");
      return;
    case "flood":
      return flood(response);
    default: {
      const { status, headers, body } = reply;
      const isText = typeof body === "string" || body instanceof Uint8Array;
      const type = body === undefined || isText ? {} : { "content-type": "application/json" };
      response.writeHead(status, { ...type, ...headers });
      response.end(isText ? body : body && JSON.stringify(body));
    }
  }
}

/** As fast as it is taken, until somebody has enough. */
async function flood(out: ServerResponse): Promise<void> {
  out.writeHead(200, { "content-type": "application/json" });
  let closed = false;
  out.once("close", () => {
    closed = true;
  });
  for (let sent = 0; sent < FLOOD_BYTES && !closed; sent += FLOOD_PIECE.byteLength) {
    if (out.write(FLOOD_PIECE)) continue;
    await new Promise<void>((resolve) => {
      out.once("drain", resolve);
      out.once("close", resolve);
    });
  }
  out.end();
}
