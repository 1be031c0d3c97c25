/** Requests of PubNub's clients: paths and queries as they were signed, bodies inflated. */
import type { IncomingMessage } from "node:http";
import { inflateSync } from "node:zlib";

/** Node's own limit is larger; PubNub takes about 32 KiB in all. */
const MAX_BODY_BYTES = 64 * 1024;

export interface ParsedQuery {
  readonly values: Readonly<Record<string, string>>;
  /** Sorted by key, encoded as it came. */
  readonly withoutSignature: string;
}

export interface ParsedRequest {
  readonly method: string;
  /** Encoded as it came. */
  readonly path: string;
  readonly parts: readonly string[];
  readonly query: ParsedQuery;
  readonly body: string;
}

export async function parseRequest(incoming: IncomingMessage): Promise<ParsedRequest> {
  const [path = "", search = ""] = (incoming.url ?? "").split(/\?(.*)/s);
  const pairs = search.split("&").filter((pair) => pair !== "");
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of incoming) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new Error("too large");
    chunks.push(chunk);
  }
  const raw = Buffer.concat(chunks);
  const isDeflated = incoming.headers["content-encoding"] === "deflate" || raw[0] === 0x78;
  return {
    method: incoming.method ?? "GET",
    path,
    parts: path.split("/").slice(1).map(decodeURIComponent),
    query: {
      values: Object.fromEntries(
        pairs.map((pair) => {
          const [key = "", value = ""] = pair.split(/=(.*)/s);
          return [key, decodeURIComponent(value)];
        }),
      ),
      withoutSignature: pairs
        .filter((pair) => !pair.startsWith("signature="))
        .sort()
        .join("&"),
    },
    body: isDeflated ? inflateSync(raw).toString("utf8") : raw.toString("utf8"),
  };
}
