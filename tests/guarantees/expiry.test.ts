/** 1. A post in the same tick as the call's expiry, on the engine, where a tick can be hit. Both stores. */
import { createFakeClock } from "@leafmesh/testkit";
import { expect, it, onTestFinished } from "vitest";
import { callsOnce, party } from "../../packages/core/src/bridge/testing/party.ts";
import { passing } from "../../packages/server/src/testing/bridge-world.ts";
import { describeOnBothStores } from "../support/stores.ts";

/** How many sessions wait and post at once, and how often. */
const PARTIES = { embedded: { sessions: 50, rounds: 60 }, PostgreSQL: { sessions: 30, rounds: 10 } } as const;

/** So many rounds are work, and a busy machine takes its time over them. */
const WITHIN_MS = 240_000;

describeOnBothStores("guarantees of expiry", (open, kind) => {
  const { sessions, rounds } = PARTIES[kind];

  it(
    `1. a post in the tick of expiry is accepted and read, or refused while the model reads a timeout, ${sessions * rounds} times`,
    async () => {
      const clock = createFakeClock();
      const store = await open(clock);
      onTestFinished(() => store.dispose());
      const { client, engine } = await party(callsOnce(), { clock, backend: store.backend });
      const counts = { accepted: 0, refused: 0 };
      const phones = await Promise.all(Array.from({ length: sessions }, () => client()));
      for (let round = 1; round <= rounds; round++) {
        const runs = await Promise.all(phones.map((phone) => phone.ask()));
        const frames = await Promise.all(phones.map((phone) => phone.nextCall(round)));
        const posted = phones.map(async (phone, index) => {
          const frame = frames[index];
          if (!frame) throw new Error("no frame");
          // At the deadline, or in the tick in which the mesh gives up, some microtasks early or late.
          const untilDeadlineMs = frame.payload.expires_at * 1000 - clock.nowMs();
          await new Promise<void>((resolve) => clock.schedule(untilDeadlineMs + (index % 3 === 0 ? 0 : 1), resolve));
          for (let turn = 0; turn < index % 7; turn++) await Promise.resolve();
          if (index % 5 === 0) await new Promise<void>((resolve) => setImmediate(resolve));
          return phone.post(frame, { status: "ok", result: { round, index } });
        });
        await clock.advance(30_001);
        const outcomes = await Promise.all(posted);
        for (const [index, outcome] of outcomes.entries()) {
          const reply = await phones[index]?.reply(runs[index] ?? "");
          if (outcome.status === "resolved") {
            counts.accepted++;
            expect(reply).toBe(JSON.stringify({ status: "ok", result: { round, index } }));
          } else {
            counts.refused++;
            expect(outcome).toEqual({ status: "no_such_call" });
            expect(reply).toMatch(/^device_timeout: /);
          }
        }
      }
      expect(counts.accepted + counts.refused).toBe(sessions * rounds);
      expect(counts.accepted).toBeGreaterThan(sessions);
      expect(counts.refused).toBeGreaterThan(sessions);
      for (const phone of phones) phone.stop();
      await passing(clock, engine.stop({ graceMs: 0 }));
    },
    WITHIN_MS,
  );
});
