import { expect } from "vitest";
import type { VendorFault } from "../../notifiers/replies.ts";
import { type NotifierCase, onStage } from "./case.ts";
import type { NotifierDouble, NotifierUnderTest, RequestPurpose } from "./under-test.ts";

/** Longer than anything may take that the mesh itself would give up after 10 s. */
const LONG_MS = 10_000;
const ENDLESS: readonly VendorFault[] = ["hang", "stall"];

/** A vendor that does not behave holds nobody up. */
export function boundCases<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): readonly NotifierCase[] {
  const purposes: readonly RequestPurpose[] = under.credential?.made ? ["ring", "credential"] : ["ring"];
  return purposes.flatMap((purpose) => [
    ...ENDLESS.map((fault) => ({
      name: `does not wait for ever for the answer to a ${purpose}: ${fault}`,
      run: () =>
        onStage(under, async ({ ring, answerNext, failure, next, clock }) => {
          answerNext(purpose, fault);
          const failing = failure(ring());
          await next(purpose, 0);
          await clock.advance(LONG_MS);
          expect(await failing).toMatchObject({ kind: "transient" });
        }),
    })),
    ...(["cut", "garbage", "flood"] as const).map((fault) => ({
      name: `takes this as no answer to a ${purpose}: ${fault}`,
      run: () =>
        onStage(under, async ({ ring, answerNext, failure, double }) => {
          answerNext(purpose, fault);
          // What a vendor that says nothing in its answers means by a page of nonsense is that it took the ring.
          const isTaken = fault === "garbage" && purpose === "ring" && under.answers.some(isBareSuccess);
          if (isTaken) await ring();
          else expect(await failure(ring())).toMatchObject({ kind: "transient" });
          expect(double.rings).toEqual([]);
        }),
    })),
    {
      name: `gives up with its signal, in the middle of a ${purpose}`,
      run: () =>
        onStage(under, async ({ ring, answerNext, failure, next }) => {
          const stop = new AbortController();
          answerNext(purpose, "hang");
          const failing = failure(ring({ signal: stop.signal }));
          await next(purpose, 0);
          stop.abort();
          expect(await failing).toMatchObject({ kind: "transient", code: "aborted" });
        }),
    },
  ]);
}

/** Whether the status alone says that a ring was taken. */
function isBareSuccess({ reply, expect: wanted }: NotifierUnderTest["answers"][number]): boolean {
  return "receipt" in wanted && typeof reply !== "function" && reply.body === undefined;
}
