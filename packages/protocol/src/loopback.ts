/**
 * Whether a host, with or without the brackets of an IPv6 address, is this very machine: `localhost`, 127.0.0.0/8 or ::1.
 * Resolves no name. Give it what `URL` made of an address: other ways to write a number are names here.
 */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || name === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name);
}
