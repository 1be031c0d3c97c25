/**
 * Addresses that an operator writes: brokers, room services, endpoints. TLS, except on this machine; private networks
 * yes; link-local and metadata addresses never, whatever name they come under.
 */
import type { LookupFunction } from "node:net";
import { isLoopbackHost } from "@leafmesh/protocol";
import { createGuardedLookup, judgeAddress } from "./address-guard.ts";
import { hostOf } from "./web-address.ts";

/** The end of a sentence about an address or its field. */
export const FORBIDDEN_ADDRESS = "is a link-local, metadata or multicast address, which the mesh does not connect to";

/** For a host that is written as a number. A name is judged when it resolves, by {@link operatorLookup}. */
export function operatorHostIssue(host: string): string | undefined {
  return judgeAddress(host.replace(/^\[(.*)\]$/, "$1"), false) && FORBIDDEN_ADDRESS;
}

/** Name resolution that fails with `AddressNotAllowed` (code `metadata_address`) when any address of the name is forbidden. */
export const operatorLookup: LookupFunction = createGuardedLookup(false);

/** Which address is expected, for what is said of another one. */
export interface AddressKind {
  readonly secure: "https:" | "wss:";
  /** Such as `https://rooms.example.com`. */
  readonly example: string;
}

/** What is wrong with an address, as the end of a sentence; `undefined` when nothing is. */
export function operatorUrlIssue(text: string, { secure, example }: AddressKind): string | undefined {
  const url = URL.parse(text);
  if (!url) return `must be an address such as ${example}`;
  const plain = secure === "https:" ? "http:" : "ws:";
  if (url.protocol !== secure && !(url.protocol === plain && isLoopbackHost(url.hostname))) {
    return `must start with ${secure}// (${plain}// only on this machine)`;
  }
  if (url.username !== "" || url.password !== "") return "must not hold a user name or password";
  return operatorHostIssue(hostOf(url));
}
