/** One direction of a forwarded connection. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { LinkFaults } from "./proxy.ts";

/** Bytes on their way that may wait here before the sender is held up. */
const MOST_WAITING_BYTES = 256 * 1024;
/** A slow link hands over what it carries ten times a second. */
const SLOW_LINK_TICK_MS = 100;

export interface Link {
  faults(): LinkFaults;
  /** Resolves when the faults change. */
  changed(): Promise<void>;
  random(): number;
  isStalled(): boolean;
  /** How many of the next bytes may pass. */
  allowed?(length: number): number;
  /** So many bytes were handed to the receiver. */
  passed?(length: number): void;
}

/** Brings what `from` sends to `to`, in order, and its end behind it; a reset of one side resets the other. */
export function forward(from: Socket, to: Socket, link: Link): void {
  const gone = once(to, "close").catch(() => {});
  let waitingBytes = 0;
  let last = Promise.resolve();
  const inTurn = (work: () => Promise<void> | void): void => {
    last = last.then(() => (to.writable ? work() : undefined));
  };

  const hand = async (data: Buffer, dueAtMs: number): Promise<void> => {
    const leftMs = dueAtMs - performance.now();
    if (leftMs > 0) await pause(leftMs);
    for (let at = 0; at < data.length; ) {
      while (link.isStalled() && !to.destroyed) await Promise.race([link.changed(), gone]);
      const length = Math.min(data.length - at, pieceOf(link.faults()));
      const { bytesPerSecond, pieceBytes } = link.faults();
      if (bytesPerSecond > 0) await pause((length * 1000) / bytesPerSecond);
      if (!to.writable) return;
      const allowed = link.allowed?.(length) ?? length;
      const isFull = allowed > 0 && !to.write(data.subarray(at, at + allowed));
      link.passed?.(allowed);
      if (!to.writable) return;
      if (isFull) await Promise.race([once(to, "drain").catch(() => {}), gone]);
      if (pieceBytes > 0) await new Promise((resolve) => setImmediate(resolve));
      at += length;
    }
  };

  from.on("data", (data: Buffer) => {
    const { delayMs, jitterMs } = link.faults();
    const dueAtMs = performance.now() + delayMs + (link.random() * 2 - 1) * jitterMs;
    waitingBytes += data.length;
    if (waitingBytes > MOST_WAITING_BYTES) from.pause();
    inTurn(async () => {
      await hand(data, dueAtMs);
      waitingBytes -= data.length;
      if (waitingBytes <= MOST_WAITING_BYTES) from.resume();
    });
  });
  from.on("end", () => inTurn(() => void to.end()));
  from.on("error", () => {});
  from.on("close", (hadError) => {
    if (hadError) to.resetAndDestroy();
    else inTurn(() => void to.destroySoon());
  });
}

function pieceOf({ bytesPerSecond, pieceBytes }: LinkFaults): number {
  const most = pieceBytes > 0 ? pieceBytes : Number.POSITIVE_INFINITY;
  if (bytesPerSecond === 0) return most;
  return Math.min(most, Math.max(1, Math.round((bytesPerSecond * SLOW_LINK_TICK_MS) / 1000)));
}
