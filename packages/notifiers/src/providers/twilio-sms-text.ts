/** What a text says. Pure. Nothing of it comes from an agent or from a person in the conversation. */
import { JOIN_PAGE_PATH } from "@leafmesh/protocol";

/** As `link`: the page that the mesh serves itself. */
export const LINK_TO_MESH = "mesh";

/** Letters, digits and marks that are one character in the carriers' alphabet. */
const PLAIN_NAME = /^[A-Za-z0-9 .,'&()+-]{1,64}$/;
/** More than this, and a text of plain characters goes out, and is billed, as two. */
const SEGMENT_CHARACTERS = 160;

/** What the code is appended to, without a trailing slash. */
export function linkBase(link: string, publicUrl: string | undefined): string {
  if (link !== LINK_TO_MESH) return link.replace(/\/+$/, "");
  if (publicUrl === undefined) throw new Error("the mesh has no public address, and was loaded with links to itself");
  return meshPage(publicUrl);
}

export function meshPage(publicUrl: string): string {
  return publicUrl.replace(/\/+$/, "") + JOIN_PAGE_PATH;
}

/** The link comes last: phones take a mark behind an address for a part of it. */
export function textFor({ mesh, ttlMs, url }: { mesh?: string | undefined; ttlMs: number; url: string }): string {
  const text = `A request for this phone is waiting. Allow or refuse it within ${timeLeft(ttlMs)}: ${url}`;
  const named = `${mesh}: ${text}`;
  return mesh !== undefined && PLAIN_NAME.test(mesh) && named.length <= SEGMENT_CHARACTERS ? named : text;
}

/** Rounded down: a person must not count on time that is not there. */
function timeLeft(ms: number): string {
  const seconds = Math.max(Math.floor(ms / 1000), 1);
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
}
