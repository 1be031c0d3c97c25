/** Addresses of a room service: the operator writes one, the service answers with another, and both are judged. */
import { operatorUrlIssue } from "@leafmesh/guarded-fetch";
import { isLoopbackHost } from "@leafmesh/protocol";

/** What is wrong with the address that an operator wrote, as the end of a sentence; `undefined` when nothing is. */
export function serviceUrlIssue(text: string): string | undefined {
  const issue = operatorUrlIssue(text, { secure: "https:", example: "https://rooms.example.com" });
  const url = URL.parse(text);
  if (issue !== undefined || !url) return issue;
  return url.search !== "" || url.hash !== "" ? "must not have a query or a fragment" : undefined;
}

/** The same for `connect_url`, which the service chose: it may lead to this machine only if the service is on it. */
export function connectUrlIssue(text: string, serviceUrl: string): string | undefined {
  if (isOnLoopback(text) && !isOnLoopback(serviceUrl)) return "leads to the mesh's own machine";
  return operatorUrlIssue(text, { secure: "wss:", example: "wss://rooms.example.com" });
}

function isOnLoopback(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && isLoopbackHost(url.hostname);
}
