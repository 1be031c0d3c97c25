import type { Approval } from "@leafmesh/protocol";
import { expect } from "vitest";
import { LINK_CODE, type NotifierCase, onStage } from "./case.ts";
import type { NotifierDouble, NotifierUnderTest } from "./under-test.ts";

const APPROVALS: readonly Approval[] = ["ask", "silent"];
const RINGS_IN_A_ROW = 6;

/** What reaches the device, and over how many connections. */
export function ringCases<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): readonly NotifierCase[] {
  const { traits } = under.definition;
  const ttlSeconds = under.ttlSeconds ?? ((ttlMs: number) => Math.ceil(ttlMs / 1000));
  const collapseKey = under.collapseKey ?? ((key: string) => key);
  return [
    ...APPROVALS.filter((approval) => approval === "ask" || traits.silent !== "never").map((approval) => ({
      name: `brings the device exactly the ring: ${approval}`,
      run: () =>
        onStage(under, async ({ ring, request, double }) => {
          await ring({ approval });
          const [received, ...more] = double.rings;
          expect(more).toEqual([]);
          expect(received?.to).toBe(under.tokens.valid);
          expect(received?.isShown).toBe(under.shows[approval]);
          const { body, ring: sent } = request({ approval });
          if (!traits.link) expect(received?.body).toBe(body);
          else {
            expect(received?.body).toContain(LINK_CODE);
            expect(received?.body).not.toContain(sent.join.token);
          }
        }),
    })),
    {
      name: "lets the vendor drop a ring that comes too late, and replace an earlier one",
      run: () =>
        onStage(under, async ({ ring, double, request }) => {
          for (const ttlMs of [42_500, 7_000]) {
            await ring({ ttlMs });
            const received = double.rings.at(-1);
            expect(received?.ttlSeconds).toBe(traits.ttl ? ttlSeconds(ttlMs) : undefined);
            expect(received?.collapseKey).toBe(traits.collapse ? collapseKey(request().collapseKey) : undefined);
          }
        }),
    },
    ...(traits.link
      ? []
      : [
          {
            name: "carries the largest ring, and sends nothing when one does not fit",
            run: () =>
              onStage(under, async ({ ring, double, failure, request }) => {
                const fixed = request({ joinTokenLength: 0 }).body.length;
                await ring({ joinTokenLength: 1_500 - fixed });
                expect(double.rings).toHaveLength(1);
                const before = double.server.requests.length;
                expect(await failure(ring({ joinTokenLength: traits.maxBytes }))).toMatchObject({ kind: "too_big" });
                expect(double.server.requests.length).toBe(before);
              }),
          },
        ]),
    {
      name: "keeps its connections",
      run: () =>
        onStage(under, async ({ ring, double }) => {
          for (let nth = 0; nth < RINGS_IN_A_ROW; nth++) await ring();
          expect(double.rings).toHaveLength(RINGS_IN_A_ROW);
          const hosts = new Set(double.server.requests.map(({ host }) => host)).size;
          // A pool may open a second one when a request comes in the moment in which the last one ends.
          expect(double.server.connections).toBeLessThanOrEqual(2 * hosts);
          expect(double.server.connections).toBeLessThan(RINGS_IN_A_ROW);
        }),
    },
    {
      name: "rings again after the vendor has closed every connection",
      run: () =>
        onStage(under, async ({ ring, double }) => {
          await ring();
          double.server.cutAll();
          await double.server.allClosed();
          // The client learns of it a moment later, and may lose the first ring to it.
          await ring().catch(() => ring());
          expect(double.rings.length).toBeGreaterThanOrEqual(2);
        }),
    },
    {
      name: "closes every connection, and rings nobody after that",
      run: () =>
        onStage(under, async ({ ring, notifier, double, failure }) => {
          await Promise.all([ring(), ring(), ring()]);
          await notifier.close();
          await notifier.close();
          expect(await failure(ring())).toMatchObject({ kind: "transient" });
          await double.server.allClosed();
          expect(double.rings).toHaveLength(3);
        }),
    },
  ];
}
