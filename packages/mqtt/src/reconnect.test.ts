import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { MqttFailure } from "./failure.ts";
import type { Link } from "./link.ts";
import { createReconnect } from "./reconnect.ts";

const refused = new MqttFailure("unavailable", "nothing listens");

/** An attempt's start is what the broker sees, so starts are what is recorded. */
function setUp(outcomes: readonly ("works" | MqttFailure)[]) {
  const clock = createFakeClock();
  const startsMs: number[] = [];
  const gaveUp: MqttFailure[] = [];
  const state = { needed: true };
  const link = {} as Link;
  const reconnect = createReconnect({
    clock,
    random: () => 0.999,
    isNeeded: () => state.needed,
    gaveUp: (failure) => gaveUp.push(failure),
    open: async () => {
      const outcome = outcomes[startsMs.length] ?? refused;
      startsMs.push(Math.round(clock.monotonicMs()));
      if (outcome !== "works") throw outcome;
      return link;
    },
  });
  return { clock, startsMs, gaveUp, reconnect, state, link };
}

describe("reconnecting", () => {
  it("waits longer each time, up to ten seconds, until it works", async () => {
    const { clock, startsMs, reconnect } = setUp([...Array(7).fill(refused), "works"]);
    reconnect.start();
    await clock.advance(120_000);
    expect(startsMs.map((start, index) => start - (startsMs[index - 1] ?? 0))).toEqual([
      500, 999, 1998, 3996, 7992, 9990, 9990, 9990,
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("attempts at once for a caller, and once for many", async () => {
    const { clock, startsMs, reconnect, link } = setUp(["works"]);
    const calls = [reconnect.now(), reconnect.now(), reconnect.now()];
    await clock.advance(0);
    expect(await Promise.all(calls)).toEqual([link, link, link]);
    expect(startsMs).toEqual([0]);
  });

  it("keeps attempts apart, however many callers come one after another", async () => {
    const { clock, startsMs, reconnect } = setUp([]);
    for (let caller = 0; caller < 3; caller++) {
      const call = reconnect.now();
      call.catch(() => {});
      await clock.advance(250);
      await expect(call).rejects.toBe(refused);
    }
    expect(startsMs).toEqual([0, 250, 500]);
  });

  it("ends when nobody needs the connection any more", async () => {
    const { clock, startsMs, reconnect, state } = setUp([]);
    reconnect.start();
    await clock.advance(500);
    state.needed = false;
    await clock.advance(60_000);
    expect(startsMs).toEqual([500]);
  });

  it("ends when the broker refuses the login, and says so once", async () => {
    const forbidden = new MqttFailure("credential", "refused");
    const { clock, startsMs, reconnect, gaveUp } = setUp([refused, forbidden]);
    reconnect.start();
    await clock.advance(60_000);
    expect(startsMs).toHaveLength(2);
    expect(gaveUp).toEqual([forbidden]);
  });

  it("stops when told to", async () => {
    const { clock, startsMs, reconnect } = setUp([]);
    reconnect.start();
    reconnect.stop();
    await clock.advance(60_000);
    expect(startsMs).toEqual([]);
  });
});
