/** Opening a connection of an event stream. */
import { LeafMeshError } from "./errors.ts";
import type { Outgoing, Transport } from "./transport.ts";

/** The answer to a request for an event stream, up to its headers. Anything but a stream is an error. */
export async function openStream(transport: Transport, request: Omit<Outgoing, "safe">): Promise<Response> {
  const response = await transport.open({
    ...request,
    headers: { accept: "text/event-stream", ...request.headers },
    safe: false,
  });
  const type = response.headers.get("content-type") ?? "";
  if (type.toLowerCase().startsWith("text/event-stream")) return response;
  void response.body?.cancel().catch(() => {});
  throw new LeafMeshError("The mesh answered with something that is not an event stream.", {
    status: response.status,
    code: "bad_answer",
  });
}

/** Where a connection begins, as the mesh reads it. */
export function lastEventId(after: number | undefined): Record<string, string> {
  return after === undefined || after === 0 ? {} : { "last-event-id": String(after) };
}
