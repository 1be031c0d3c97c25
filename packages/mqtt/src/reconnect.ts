/** When to connect: at once when somebody asks, with growing and spread waits when nobody does. */
import type { Clock, Timer } from "@leafmesh/protocol";
import { MqttFailure, mayPass } from "./failure.ts";
import type { Link } from "./link.ts";

/** Attempts start at least this far apart, however many callers ask. */
const SPACING_MS = 250;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

export interface ReconnectOptions {
  /** Throws {@link MqttFailure}. */
  readonly open: () => Promise<Link>;
  /** Asked before each attempt of its own accord: whether anybody still needs the connection. */
  readonly isNeeded: () => boolean;
  /** An attempt failed in a way that another one would not cure. */
  readonly gaveUp: (failure: MqttFailure) => void;
  readonly clock: Clock;
  readonly random: () => number;
}

export interface Reconnect {
  /** Attempts now, or joins the attempt that is running. Rejects with {@link MqttFailure}. */
  now(): Promise<Link>;
  /** The connection was lost: attempts until it is back, nobody needs it, or no attempt can help. */
  start(): void;
  stop(): void;
}

export function createReconnect({ open, isNeeded, gaveUp, clock, random }: ReconnectOptions): Reconnect {
  let attempt: Promise<Link> | undefined;
  let earliestMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let timer: Timer | undefined;

  const wait = (ms: number): Promise<void> => new Promise((resolve) => clock.schedule(ms, resolve));

  const connect = async (): Promise<Link> => {
    const early = earliestMs - clock.monotonicMs();
    if (early > 0) await wait(early);
    earliestMs = clock.monotonicMs() + SPACING_MS;
    return await open();
  };

  const now = (): Promise<Link> => {
    if (!attempt) {
      attempt = connect().finally(() => {
        attempt = undefined;
      });
      // Whoever asked may have stopped waiting by the time it fails.
      attempt.catch(() => {});
    }
    return attempt;
  };

  const again = async (): Promise<void> => {
    timer = undefined;
    if (!isNeeded()) return;
    try {
      await now();
      failures = 0;
    } catch (error) {
      if (error instanceof MqttFailure && !mayPass(error)) gaveUp(error);
      else schedule();
    }
  };

  const schedule = (): void => {
    const whole = Math.min(FIRST_WAIT_MS * 2 ** Math.min(failures++, 10), LONGEST_WAIT_MS);
    timer ??= clock.schedule(whole * random(), () => void again());
  };

  return {
    now,
    start() {
      failures = 0;
      schedule();
    },
    stop() {
      timer?.cancel();
      timer = undefined;
    },
  };
}
