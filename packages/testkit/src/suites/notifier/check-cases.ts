import { expect } from "vitest";
import { type NotifierCase, onStage } from "./case.ts";
import type { NotifierDouble, NotifierUnderTest } from "./under-test.ts";

const CHECK_TIMEOUT_MS = 20_000;

/** A connection test tells the truth, and rings nobody. */
export function checkCases<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): readonly NotifierCase[] {
  const never = new AbortController().signal;
  return [
    ...under.checks.map(({ name, arrange, record, expect: status, reason }) => ({
      name: `finds, without ringing anybody: ${name}`,
      run: () =>
        onStage(
          under,
          async ({ notifier, double }) => {
            arrange?.(double);
            const result = await notifier.check(never);
            expect(result.status).toBe(status);
            if (result.status !== "active") expect(result.reason).toMatch(reason ?? /^.{10,400}$/);
            expect(double.rings).toEqual([]);
          },
          record,
        ),
    })),
    {
      name: "calls a credential readable when the vendor does not answer",
      run: () =>
        onStage(under, async ({ notifier, double, clock }) => {
          // Without this a check that asks nobody would wait for a request that never comes.
          const asks = await asksTheVendor(under);
          if (!asks) return;
          double.server.answerNext("hang");
          const checking = notifier.check(never);
          await double.server.received(1);
          await clock.advance(CHECK_TIMEOUT_MS);
          expect(await checking).toMatchObject({ status: "readable" });
        }),
    },
    {
      name: "ends a check with its signal",
      run: () =>
        onStage(under, async ({ notifier, double }) => {
          if (!(await asksTheVendor(under))) return;
          const stop = new AbortController();
          double.server.answerNext("hang");
          const checking = notifier.check(stop.signal);
          await double.server.received(1);
          stop.abort();
          expect(await checking).toMatchObject({ status: "readable" });
        }),
    },
  ];
}

/** Whether a check sends anything at all: for web push there is nobody to ask. */
async function asksTheVendor<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): Promise<boolean> {
  let asked = false;
  await onStage(under, async ({ notifier, double }) => {
    await notifier.check(new AbortController().signal);
    asked = double.server.requests.length > 0;
  });
  return asked;
}
