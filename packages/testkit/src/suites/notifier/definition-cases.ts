import { expect } from "vitest";
import { fieldsOf, type NotifierCase, onStage, secretFields } from "./case.ts";
import type { NotifierDouble, NotifierUnderTest } from "./under-test.ts";

/** What the definition says before anything is made of it. */
export function definitionCases<Double extends NotifierDouble>(
  under: NotifierUnderTest<Double>,
): readonly NotifierCase[] {
  const { definition, tokens } = under;
  return [
    {
      name: "documents how it is set up, what a push token is, what a device does, what its test proves, and where the vendor says so",
      async run() {
        const { setUp, pushToken, onTheDevice, check, goodToKnow, links } = definition.docs;
        expect(Math.min(setUp.length, goodToKnow.length, links.length)).toBeGreaterThan(0);
        for (const sentence of [...setUp, ...goodToKnow, pushToken, onTheDevice, check])
          expect(sentence).toMatch(/[.:`]$/);
        for (const link of links) expect(link).toMatch(/^https:\/\//);
      },
    },
    {
      name: "is strict about its fields, and has a help text for each",
      async run() {
        const { double, record } = await under.open({ nowMs: () => 0, monotonicMs: () => 0, schedule: never });
        await double.close();
        expect(definition.options.safeParse(record)).toMatchObject({ success: true });
        expect(definition.options.safeParse({ ...record, surprise: 1 })).toMatchObject({ success: false });
        const bare = fieldsOf(definition).filter(({ description }) => !description);
        expect(bare.map(({ name }) => name)).toEqual([]);
        const written = secretFields(under).filter((name) => name in record);
        const parsed = definition.options.parse(record) as Record<string, unknown>;
        for (const name of written) expect(String(parsed[name])).toBe("[redacted]");
      },
    },
    {
      name: "knows its own push tokens, and does not repeat the others in what it says",
      async run() {
        expect(definition.pushToken.safeParse(tokens.valid)).toMatchObject({ success: true });
        const everywhere = ["", " ", "a b", "line\nbreak", "nul\u0000", "../../etc/passwd", "x".repeat(10_000)];
        for (const wrong of [...everywhere, ...tokens.wrong]) {
          const parsed = definition.pushToken.safeParse(wrong);
          expect(parsed.success, JSON.stringify(wrong.slice(0, 100))).toBe(false);
          if (wrong.trim().length > 5) expect(parsed.error?.message).not.toContain(wrong);
        }
      },
    },
    {
      name: "opens nothing when it is made, and is closed without having been used",
      run: () => onStage(under, async ({ double }) => expect(double.server.connections).toBe(0)),
    },
  ];
}

const never = (): never => {
  throw new Error("nothing is armed while a record is parsed");
};
