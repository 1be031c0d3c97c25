/**
 * How many texts one number gets. Whoever may start conversations chooses the numbers, and a model may ask again and again:
 * a person's phone, and the operator's bill, need an end that does not depend on either.
 */
import { createHash } from "node:crypto";
import type { Clock, Secret } from "@leafmesh/protocol";
import { RingError } from "../contract.ts";

const TEXTS_AN_HOUR = 20;
const HOUR_MS = 3_600_000;
/** Numbers that are remembered; the one that was texted longest ago goes first. */
const MAX_NUMBERS = 10_000;

export interface TextLimit {
  /** Counts a text to this number. Throws {@link RingError} (`quota`) when it had its share of the last hour. */
  count(number: Secret): void;
}

/** In memory, of one connection in one process. */
export function createTextLimit({ monotonicMs }: Pick<Clock, "monotonicMs">): TextLimit {
  /** When texts went out, by the hash of the number, in the order of the last one. */
  const sent = new Map<string, readonly number[]>();
  return {
    count(number) {
      const key = createHash("sha256").update(number.reveal()).digest("base64");
      const nowMs = monotonicMs();
      const recent = (sent.get(key) ?? []).filter((atMs) => atMs > nowMs - HOUR_MS);
      const [oldest] = recent;
      if (recent.length >= TEXTS_AN_HOUR && oldest !== undefined) {
        const message = `This number got ${TEXTS_AN_HOUR} texts within an hour, and the mesh sends it no more for now.`;
        throw new RingError("quota", message, { code: "text_limit", retryAfterMs: oldest + HOUR_MS - nowMs });
      }
      sent.delete(key);
      sent.set(key, [...recent, nowMs]);
      for (const longestAgo of sent.keys()) {
        if (sent.size <= MAX_NUMBERS) break;
        sent.delete(longestAgo);
      }
    },
  };
}
