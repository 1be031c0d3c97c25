import type { IncomingMessage } from "node:http";

const HEADER = "X-Mewbo-Capabilities";
const CAPABILITY = "device_control";

/** How a client says that it executes device tools. */
export const EXECUTES_DEVICE_TOOLS = `${HEADER}: ${CAPABILITY}`;

/** The header lists capabilities, of which one is looked for. */
export function executesDeviceTools({ headers }: IncomingMessage): boolean {
  const listed = [headers[HEADER.toLowerCase()] ?? []]
    .flat()
    .join(",")
    .split(/[\s,;]+/);
  return listed.some((capability) => capability.toLowerCase() === CAPABILITY);
}
