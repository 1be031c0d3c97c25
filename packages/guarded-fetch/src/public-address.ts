/** Which addresses are the public internet's. Pure. */
import { BlockList, isIP } from "node:net";

/** Ranges without a place in the public internet: https://www.iana.org/assignments/iana-ipv4-special-registry */
const specialIPv4 = new BlockList();
for (const [network, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const) {
  specialIPv4.addSubnet(network, prefix, "ipv4");
}

/** All that is allocated, https://www.iana.org/assignments/ipv6-address-space */
const globalIPv6 = new BlockList();
globalIPv6.addSubnet("2000::", 3, "ipv6");

/** Within it, tunnels to any IPv4 address, and ranges for documentation and tests. */
const specialIPv6 = new BlockList();
for (const [network, prefix] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const) {
  specialIPv6.addSubnet(network, prefix, "ipv6");
}

/** False for what is not a numeric address, too. IPv4 in the clothes of IPv6 is outside what is allocated. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !specialIPv4.check(address, "ipv4");
  return family === 6 && globalIPv6.check(address, "ipv6") && !specialIPv6.check(address, "ipv6");
}
