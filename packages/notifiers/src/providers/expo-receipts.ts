/**
 * Receipts of Expo: what Apple and Google said to a notification that Expo had taken. They come too late for an ask, so
 * they go to the log, where an operator finds why devices that were rung never joined.
 * https://docs.expo.dev/push-notifications/sending-notifications/#push-receipts
 */
import type { Clock, Logger } from "@leafmesh/protocol";
import { type Closable, RingError } from "../contract.ts";
import type { Receipts } from "./expo-answers.ts";

/** Expo has them by then, and keeps them for a day. */
export const RECEIPT_AFTER_MS = 15 * 60_000;
/** Rings of this long are asked about together. */
export const GATHER_MS = 60_000;
/** Expo takes 1000 in one request; its answer for these stays below what is read of one. */
const MAX_AT_ONCE = 100;
/** Of more, the oldest are forgotten: 10 000 in 15 minutes are 11 a second. */
const MAX_WAITING = 10_000;

export interface ReceiptWatch extends Closable {
  /** Looks later what became of this ticket. */
  add(ticket: string): void;
}

export interface ReceiptWatchOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Asks Expo. Throws {@link RingError}. */
  readonly read: (tickets: readonly string[], signal: AbortSignal) => Promise<Receipts>;
}

/** One timer at most, and one request at a time; a lookup that fails is not repeated. */
export function watchReceipts({ clock, logger, read }: ReceiptWatchOptions): ReceiptWatch {
  const waiting = new Map<string, { readonly dueAtMs: number }>();
  const closing = new AbortController();
  let timer: ReturnType<Clock["schedule"]> | undefined;
  let looking: Promise<void> | undefined;

  const arm = (): void => {
    if (timer || looking || closing.signal.aborted) return;
    const [first] = waiting.values();
    if (!first) return;
    timer = clock.schedule(Math.max(0, first.dueAtMs + GATHER_MS - clock.monotonicMs()), () => {
      timer = undefined;
      looking = look().finally(() => {
        looking = undefined;
        arm();
      });
    });
  };

  const look = async (): Promise<void> => {
    const now = clock.monotonicMs();
    const due = [...waiting].filter(([, { dueAtMs }]) => dueAtMs <= now).map(([ticket]) => ticket);
    for (const ticket of due) waiting.delete(ticket);
    for (let at = 0; at < due.length && !closing.signal.aborted; at += MAX_AT_ONCE) {
      await tell(due.slice(at, at + MAX_AT_ONCE));
    }
  };

  const tell = async (tickets: readonly string[]): Promise<void> => {
    try {
      const { failures, missing } = await read(tickets, closing.signal);
      for (const { id, code, message } of failures) {
        logger.warn("A ring that Expo had taken did not reach the device", { ticket: id, code, reason: message });
      }
      if (missing.length > 0) {
        logger.warn("Expo does not say what became of rings that it had taken", { count: missing.length });
      }
    } catch (error) {
      if (closing.signal.aborted) return;
      const why = error instanceof RingError ? { code: error.code, reason: error.message } : { error };
      logger.warn("Expo's receipts could not be read", { count: tickets.length, ...why });
    }
  };

  return {
    add(ticket) {
      if (closing.signal.aborted) return;
      const [oldest] = waiting.keys();
      if (waiting.size >= MAX_WAITING && oldest !== undefined) waiting.delete(oldest);
      waiting.set(ticket, { dueAtMs: clock.monotonicMs() + RECEIPT_AFTER_MS });
      arm();
    },
    async close() {
      closing.abort();
      timer?.cancel();
      timer = undefined;
      waiting.clear();
      await looking;
    },
  };
}
