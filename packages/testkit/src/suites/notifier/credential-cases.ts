import { expect } from "vitest";
import { type NotifierCase, onStage } from "./case.ts";
import type { NotifierDouble, NotifierUnderTest } from "./under-test.ts";

/** A credential is made once for all, and anew before the vendor refuses the old one. */
export function credentialCases<Double extends NotifierDouble>(
  under: NotifierUnderTest<Double>,
): readonly NotifierCase[] {
  const { credential } = under;
  if (!credential) return [];
  const made = credential.made ?? differentCredentials;
  return [
    {
      name: "makes one credential for all who ring at once",
      run: () =>
        onStage(under, async ({ ring, double }) => {
          await Promise.all(Array.from({ length: 8 }, () => ring()));
          expect(double.rings).toHaveLength(8);
          expect(made(double)).toBe(1);
        }),
    },
    {
      name: "keeps it for most of its life, and makes a new one before its end",
      run: () =>
        onStage(under, async ({ ring, double, clock }) => {
          await ring();
          await clock.advance(credential.lifetimeMs * 0.4);
          await ring();
          expect(made(double)).toBe(1);
          await clock.advance(credential.lifetimeMs * 0.59);
          await Promise.all([ring(), ring()]);
          expect(made(double)).toBe(2);
          expect(double.rings).toHaveLength(4);
        }),
    },
  ];
}

function differentCredentials(double: NotifierDouble): number {
  const rings = double.server.requests.filter((request) => double.purposeOf(request) === "ring");
  return new Set(rings.map(({ headers }) => headers.authorization)).size;
}
