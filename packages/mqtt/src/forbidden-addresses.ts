/**
 * Hosts that an operator's address must not lead to, whatever name they come under: link-local addresses, which is
 * where clouds keep the credentials of the machine.
 */
import { lookup as resolve } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";

const forbidden = new BlockList();
forbidden.addSubnet("169.254.0.0", 16, "ipv4");
forbidden.addSubnet("fe80::", 10, "ipv6");
forbidden.addAddress("fd00:ec2::254", "ipv6");

/** For an address that is written as a number. A name is judged when it resolves, by {@link guardedLookup}. */
export function forbiddenHostIssue(host: string): string | undefined {
  return isForbidden(host) ? "is a link-local address, which the mesh does not connect to" : undefined;
}

/** Name resolution that fails with `ADDRESS_NOT_ALLOWED` when any address of the name is forbidden. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  resolve(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, []);
    if (addresses.some(({ address }) => isForbidden(address))) {
      return callback(Object.assign(new Error("address not allowed"), { code: "ADDRESS_NOT_ALLOWED" }), []);
    }
    const [first] = addresses;
    if (options.all || !first) return callback(null, addresses);
    callback(null, first.address, first.family);
  });
};

function isForbidden(host: string): boolean {
  const family = isIP(host);
  return family !== 0 && forbidden.check(host, family === 6 ? "ipv6" : "ipv4");
}
