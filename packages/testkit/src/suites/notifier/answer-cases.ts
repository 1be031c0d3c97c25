import { expect } from "vitest";
import { type NotifierCase, onStage } from "./case.ts";
import type { NotifierDouble, NotifierUnderTest } from "./under-test.ts";

const UNDOCUMENTED = [
  { status: 200, body: "null" },
  { status: 200, body: "[]" },
  { status: 400, body: '{"errors":[{}]}' },
  { status: 403, body: { error: 7 } },
  { status: 418, body: { error: null } },
  { status: 429, body: "slow down" },
  { status: 500, body: '{"error":{"code":{}}}' },
  { status: 502, body: "<html>Bad Gateway</html>" },
];

/** Every documented answer is what the table says, and none that is not documented is more than a failure. */
export function answerCases<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): readonly NotifierCase[] {
  const documented = under.answers.map(({ name, reply, expect: wanted, requests = 1 }) => ({
    name: `understands: ${name}`,
    run: () =>
      onStage(under, async ({ ring, answerNext, count, failure }) => {
        const answer = typeof reply === "function" ? reply(under.tokens.valid) : reply;
        for (let nth = 0; nth < requests; nth++) answerNext("ring", answer);
        if ("receipt" in wanted) {
          const { id } = await ring();
          expect(id).toBe(wanted.receipt);
        } else {
          const error = await failure(ring());
          const { kind, code, message } = error;
          expect({ kind, code }).toEqual({ kind: wanted.kind, code: wanted.code ?? code });
          expect(message).toMatch(wanted.message ?? /^.{10,400}$/);
        }
        expect(count("ring")).toBe(requests);
      }),
  }));
  return [
    ...documented,
    {
      name: "survives answers that nobody documents",
      run: () =>
        onStage(under, async ({ ring, answerNext, failure }) => {
          for (const reply of UNDOCUMENTED) {
            answerNext("ring", reply);
            answerNext("ring", reply);
            const ringing = ring();
            if (reply.status === 200) await ringing.catch(() => failure(ringing));
            else await failure(ringing);
          }
        }),
    },
  ];
}
