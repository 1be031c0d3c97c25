/** Whether the address names this very machine: `localhost`, 127.0.0.0/8 or ::1. Never resolves a name. */
export function isLoopbackAddress(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const host = new URL(address).hostname.toLowerCase();
  return host === "localhost" || host === "[::1]" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
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
