import { describe, expect, it } from "vitest";
import { answerCases } from "./notifier/answer-cases.ts";
import { boundCases } from "./notifier/bound-cases.ts";
import type { NotifierCase } from "./notifier/case.ts";
import { checkCases } from "./notifier/check-cases.ts";
import { credentialCases } from "./notifier/credential-cases.ts";
import { definitionCases } from "./notifier/definition-cases.ts";
import { retryCases } from "./notifier/retry-cases.ts";
import { ringCases } from "./notifier/ring-cases.ts";
import type { NotifierDouble, NotifierUnderTest } from "./notifier/under-test.ts";

/** Everything that the contract of notifiers promises, for one provider. Each case opens a double of its own. */
export function notifierCases<Double extends NotifierDouble>(
  under: NotifierUnderTest<Double>,
): readonly NotifierCase[] {
  return [
    ...definitionCases(under),
    ...ringCases(under),
    ...answerCases(under),
    ...retryCases(under),
    ...boundCases(under),
    ...credentialCases(under),
    ...checkCases(under),
  ];
}

/** The conformance suite of notifiers, as vitest tests: a provider, a double of its vendor, and tables of what the vendor documents. */
export function testNotifier<Double extends NotifierDouble>(under: NotifierUnderTest<Double>): void {
  describe(`notifier: ${under.definition.provider}`, () => {
    for (const { name, run } of notifierCases(under)) it(name, run);

    it("has a table of the vendor's answers and one of its checks", () => {
      const kinds = under.answers.map((answer) => ("kind" in answer.expect ? answer.expect.kind : "taken"));
      expect(kinds).toEqual(expect.arrayContaining(["taken", "transient"]));
      const verdicts = under.checks.map((check) => check.expect);
      expect(verdicts).toContain("readable");
      expect(verdicts.includes("active")).toBe(under.nobodyToAsk !== true);
    });
  });
}
