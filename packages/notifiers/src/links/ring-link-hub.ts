/**
 * Rings that wait for the person who follows a link to them. In memory, like the rooms that they lead to: of a process
 * that ended, no link leads anywhere any more. Codes are kept hashed, so that nothing here opens a room again.
 */
import { createHash, getRandomValues } from "node:crypto";
import type { Clock } from "@leafmesh/protocol";
import type { RingLinks } from "../contract.ts";

/** What a link leads to. `unknown`: to nothing that this process has, or not any more. */
export type LinkState = "open" | "used" | "over" | "unknown";

export interface OpenedLink {
  readonly state: "open";
  readonly ask: string;
  /** The ring as compact JSON. */
  readonly ring: string;
  readonly leftMs: number;
}

export interface LookedAtLink {
  readonly state: LinkState;
  readonly ask?: string | undefined;
}

export interface ClosedLink {
  readonly state: Exclude<LinkState, "open">;
}

/** Links are asked for by {@link hashLinkCode} of their code. */
export interface RingLinkHub extends RingLinks {
  /** Changes nothing: for the page, which previewers fetch as well. */
  look(codeHash: string): LookedAtLink;
  /** Gives the ring out, once. */
  open(codeHash: string): OpenedLink | ClosedLink;
}

export interface RingLinkHubOptions {
  readonly clock: Clock;
  /** Links that are remembered, ended ones included; the oldest goes first. 10 000 unless given. */
  readonly maxLinks?: number | undefined;
}

interface Link {
  readonly ask: string;
  readonly endsAtMs: number;
  /** `undefined` once it was given out. */
  ring: string | undefined;
}

const MAX_LINKS = 10_000;
/** Without 0, O, I and l, which people mix up when they type. 22 of them have 128.8 bits. */
const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const CODE_CHARACTERS = 22;

export function createRingLinkHub({ clock, maxLinks = MAX_LINKS }: RingLinkHubOptions): RingLinkHub {
  /** In the order in which they were made. */
  const links = new Map<string, Link>();
  const newest = new Map<string, string>();

  const forget = (key: string): void => {
    const ask = links.get(key)?.ask;
    links.delete(key);
    if (ask !== undefined && newest.get(ask) === key) newest.delete(ask);
  };

  const stateOf = (link: Link | undefined): LinkState => {
    if (!link) return "unknown";
    if (link.ring === undefined) return "used";
    return link.endsAtMs > clock.monotonicMs() ? "open" : "over";
  };

  return {
    keep({ ring: { ask }, body, ttlMs }) {
      const earlier = newest.get(ask);
      if (earlier !== undefined) forget(earlier);
      for (const oldest of links.keys()) {
        if (links.size < maxLinks) break;
        forget(oldest);
      }
      const code = newCode();
      const key = hashLinkCode(code);
      links.set(key, { ask, ring: body, endsAtMs: clock.monotonicMs() + ttlMs });
      newest.set(ask, key);
      return code;
    },

    look(codeHash) {
      const link = links.get(codeHash);
      return { state: stateOf(link), ask: link?.ask };
    },

    open(codeHash) {
      const link = links.get(codeHash);
      const state = stateOf(link);
      if (state !== "open" || link?.ring === undefined) return { state: state === "open" ? "used" : state };
      const { ask, ring, endsAtMs } = link;
      link.ring = undefined;
      return { state, ask, ring, leftMs: endsAtMs - clock.monotonicMs() };
    },
  };
}

/** SHA-256 of a code: what is kept of it, and what other processes of the mesh are told. */
export function hashLinkCode(code: string): string {
  return createHash("sha256").update(code).digest("base64");
}

function newCode(): string {
  let code = "";
  while (code.length < CODE_CHARACTERS) {
    for (const byte of getRandomValues(new Uint8Array(32))) {
      const character = ALPHABET[byte & 63];
      if (character !== undefined && code.length < CODE_CHARACTERS) code += character;
    }
  }
  return code;
}
