import { type RingError, ringWithRetry } from "@leafmesh/notifiers/contract";
import { expect } from "vitest";
import type { VendorReply } from "../../notifiers/replies.ts";
import { type NotifierCase, onStage } from "./case.ts";
import type { DocumentedAnswer, NotifierDouble, NotifierUnderTest } from "./under-test.ts";

/** The vendor's own passing trouble, as the mesh meets it: {@link ringWithRetry} around the adapter. */
export function retryCases<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): readonly NotifierCase[] {
  const transient = under.answers.find((answer) => kindOf(answer) === "transient");
  if (!transient) return [];
  const replyWith = (headers: Readonly<Record<string, string>>): VendorReply => {
    const reply = typeof transient.reply === "function" ? transient.reply(under.tokens.valid) : transient.reply;
    return { ...reply, headers: { ...reply.headers, ...headers } };
  };
  const comeBack = (header: string, waitMs: number): NotifierCase => ({
    name: `is rung again when the vendor says so: Retry-After: ${header}`,
    run: () =>
      onStage(under, async ({ ring, answerNext, clock, double }) => {
        answerNext("ring", replyWith({ "retry-after": header }));
        const { promise: failed, resolve: fail } = Promise.withResolvers<RingError>();
        const ringing = ringWithRetry(() => ring(), {
          leftMs: () => 40_000 - clock.monotonicMs(),
          random: () => 0,
          onRetry: fail,
          pause: (ms) => new Promise((resolve) => clock.schedule(ms, resolve)),
        });
        expect(await failed).toMatchObject({ retryAfterMs: waitMs, isRepeatable: true, mayHaveRung: false });
        await clock.advance(waitMs);
        await ringing;
        expect(double.rings).toHaveLength(1);
      }),
  });
  if (under.repeatsAreHarmless === false) return [neverTwice(under)];
  return [
    comeBack("3", 3_000),
    comeBack("Fri, 15 Jan 2027 08:00:07 GMT", 7_000),
    {
      name: "does not take over a wait that makes no sense",
      run: () =>
        onStage(under, async ({ ring, answerNext, failure }) => {
          for (const [header, waitMs] of [
            ["999999999999", 3_600_000],
            ["-5", undefined],
            ["soon", undefined],
            ["Thu, 01 Jan 1970 00:00:00 GMT", 0],
          ] as const) {
            answerNext("ring", replyWith({ "retry-after": header }));
            expect(await failure(ring())).toMatchObject({ kind: "transient", retryAfterMs: waitMs });
          }
        }),
    },
  ];
}

/** The vendor may have sent the message before the connection was lost. */
function neverTwice<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): NotifierCase {
  return {
    name: "is not rung again when it may have rung",
    run: () =>
      onStage(under, async ({ ring, answerNext, failure, count }) => {
        answerNext("ring", "cut");
        const ringing = ringWithRetry(() => ring(), {
          leftMs: () => 40_000,
          random: () => 0,
          onRetry: () => expect.fail("it is rung again"),
          pause: async () => {},
        });
        expect(await failure(ringing)).toMatchObject({ kind: "transient", mayHaveRung: true, isRepeatable: false });
        expect(count("ring")).toBe(1);
      }),
  };
}

function kindOf({ expect: wanted }: DocumentedAnswer): string | undefined {
  return "kind" in wanted ? wanted.kind : undefined;
}
