/**
 * Where a call to an address of the operator's may go. Link-local addresses, where clouds keep the credentials of the machine, are refused
 * whatever name they come under; without TLS a call stays on this machine or in a private network.
 */
import { type LookupOptions, lookup as resolve } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";

export type AddressRefusal = "metadata_address" | "plaintext_address";

/** The error of a look-up that found an address that is not allowed. */
export class AddressNotAllowed extends Error {
  override readonly name = "AddressNotAllowed";
  readonly code: AddressRefusal;

  constructor(code: AddressRefusal) {
    super("the address is not allowed");
    this.code = code;
  }
}

const metadata = new BlockList();
metadata.addSubnet("169.254.0.0", 16, "ipv4");
/** No hosts: this machine by another name, multicast, and what is reserved. */
metadata.addSubnet("0.0.0.0", 8, "ipv4");
metadata.addSubnet("224.0.0.0", 3, "ipv4");
metadata.addAddress("::", "ipv6");
metadata.addSubnet("ff00::", 8, "ipv6");
metadata.addAddress("100.100.100.200", "ipv4");
metadata.addAddress("192.0.0.192", "ipv4");
metadata.addSubnet("fe80::", 10, "ipv6");
metadata.addAddress("fd00:ec2::254", "ipv6");
/** The same IPv4 addresses behind a translator, https://www.rfc-editor.org/rfc/rfc6052. */
metadata.addSubnet("64:ff9b::a9fe:0", 112, "ipv6");
metadata.addAddress("64:ff9b::6464:64c8", "ipv6");
metadata.addAddress("64:ff9b::c000:c0", "ipv6");

/** https://www.iana.org/assignments/iana-ipv4-special-registry and its IPv6 sister. */
const near = new BlockList();
near.addSubnet("127.0.0.0", 8, "ipv4");
near.addSubnet("10.0.0.0", 8, "ipv4");
near.addSubnet("172.16.0.0", 12, "ipv4");
near.addSubnet("192.168.0.0", 16, "ipv4");
near.addSubnet("100.64.0.0", 10, "ipv4");
near.addAddress("::1", "ipv6");
near.addSubnet("fc00::", 7, "ipv6");

/** Why a call may not go to this address; for what is not a numeric address, nothing: a name is judged when it resolves. */
export function judgeAddress(address: string, isPlaintext: boolean): AddressRefusal | undefined {
  const family = isIP(address);
  if (family === 0) return undefined;
  const type = family === 6 ? "ipv6" : "ipv4";
  if (metadata.check(address, type)) return "metadata_address";
  return isPlaintext && !near.check(address, type) ? "plaintext_address" : undefined;
}

type Resolve = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: { address: string; family: number }[]) => void,
) => void;

/** Name resolution that fails with {@link AddressNotAllowed} when any address of the name is not allowed. */
export function createGuardedLookup(isPlaintext: boolean, resolveAll: Resolve = resolve): LookupFunction {
  return (hostname, options, callback) => {
    resolveAll(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      const refusal = addresses.map(({ address }) => judgeAddress(address, isPlaintext)).find((found) => found);
      if (refusal) return callback(new AddressNotAllowed(refusal), []);
      const [first] = addresses;
      if (options.all || !first) return callback(null, addresses);
      callback(null, first.address, first.family);
    });
  };
}
