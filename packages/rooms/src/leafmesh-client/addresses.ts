/**
 * Addresses of a room service. The operator writes one, the service answers with another, and both are followed only
 * where a mesh may go: https and wss (plain on loopback alone), private networks yes, link-local and metadata never.
 */
import { lookup as resolve } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";

/** Where clouds and container hosts keep a machine's own credentials; no room service lives there. */
const forbidden = new BlockList();
forbidden.addSubnet("169.254.0.0", 16, "ipv4");
forbidden.addAddress("100.100.100.200", "ipv4");
forbidden.addAddress("192.0.0.192", "ipv4");
forbidden.addSubnet("0.0.0.0", 8, "ipv4");
forbidden.addSubnet("224.0.0.0", 3, "ipv4");
forbidden.addAddress("::", "ipv6");
forbidden.addSubnet("fe80::", 10, "ipv6");
forbidden.addSubnet("ff00::", 8, "ipv6");
forbidden.addAddress("fd00:ec2::254", "ipv6");
// 169.254.0.0/16 behind NAT64 (RFC 6052).
forbidden.addSubnet("64:ff9b::a9fe:0", 112, "ipv6");

/** What is wrong with the address that an operator wrote, as the end of a sentence; `undefined` when nothing is. */
export function serviceUrlIssue(text: string): string | undefined {
  const url = URL.parse(text);
  if (!url) return "must be an address such as https://rooms.example.com";
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(url))) {
    return "must start with https:// (http:// only on this machine)";
  }
  if (url.search !== "" || url.hash !== "") return "must not have a query or a fragment";
  return commonIssue(url);
}

/** The same for `connect_url`, which the service chose: it may lead to this machine only if the service is on it. */
export function connectUrlIssue(text: string, serviceUrl: string): string | undefined {
  const url = URL.parse(text);
  if (!url) return "is not an address";
  const service = URL.parse(serviceUrl);
  if (isLoopback(url) && !(service && isLoopback(service))) return "leads to the mesh's own machine";
  if (url.protocol !== "wss:" && !(url.protocol === "ws:" && isLoopback(url))) return "must start with wss://";
  return commonIssue(url);
}

/** Name resolution that fails with `ADDRESS_NOT_ALLOWED` when any address of the name is forbidden. */
export const guardedLookup: LookupFunction = (hostname, options, callback) => {
  resolve(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) {
      callback(error, []);
      return;
    }
    if (addresses.some(({ address }) => isForbidden(address))) {
      callback(Object.assign(new Error("address not allowed"), { code: "ADDRESS_NOT_ALLOWED" }), []);
      return;
    }
    const [first] = addresses;
    if (options.all || !first) callback(null, addresses);
    else callback(null, first.address, first.family);
  });
};

/** Resolves no name: `localhost`, 127.0.0.0/8 and ::1. */
function isLoopback({ hostname }: URL): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(hostname);
}

function commonIssue(url: URL): string | undefined {
  if (url.username !== "" || url.password !== "") return "must not hold a user name or password";
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  return isForbidden(host)
    ? "is a link-local, metadata or multicast address, which the mesh does not connect to"
    : undefined;
}

function isForbidden(host: string): boolean {
  const family = isIP(host);
  return family !== 0 && forbidden.check(host, family === 6 ? "ipv6" : "ipv4");
}
