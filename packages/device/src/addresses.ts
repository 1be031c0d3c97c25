import { isLoopbackHost } from "@leafmesh/protocol";

/** Whether the address names this very machine: `localhost`, 127.0.0.0/8 or ::1. Never resolves a name. */
export function isLoopbackAddress(address: string): boolean {
  if (!URL.canParse(address)) return false;
  return isLoopbackHost(new URL(address).hostname);
}

/** Whether a WebSocket address may be used: `wss:` anywhere, `ws:` on this machine alone. */
export function isAllowedSocketAddress(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol } = new URL(address);
  return protocol === "wss:" || (protocol === "ws:" && isLoopbackAddress(address));
}

/** The same for HTTP. */
export function isAllowedHttpAddress(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const { protocol } = new URL(address);
  return protocol === "https:" || (protocol === "http:" && isLoopbackAddress(address));
}
