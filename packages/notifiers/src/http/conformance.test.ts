/** The blocks of this folder, put together as an adapter puts them, pass the suite; adapters with a flaw do not. */
import { notifierCases, testNotifier } from "@leafmesh/testkit/suites";
import { describe, expect, it } from "vitest";
import { examplePush } from "../../testing/example-push.ts";
import { type ExamplePushDouble, startExamplePush, TOKEN_LIFETIME_MS } from "../../testing/example-push-double.ts";
import { flaws } from "../../testing/flawed-push.ts";

const APP = { id: "my-app", key: "the-key-of-my-app" };

const under = {
  definition: examplePush,
  async open(clock: Parameters<typeof startExamplePush>[0]) {
    return { double: await startExamplePush(clock, APP), record: { app_id: APP.id, app_key: APP.key } };
  },
  tokens: {
    valid: "dev-0123456789abcdef",
    wrong: ["dev-0123456789ABCDEF", "dev-0123", "0123456789abcdef", "dev-0123456789abcdef\n"],
  },
  shows: { ask: true, silent: false },
  credential: { lifetimeMs: TOKEN_LIFETIME_MS, made: ({ issued }: ExamplePushDouble) => issued.size },
  answers: [
    { name: "taken", reply: { status: 200, body: { id: "m-1" } }, expect: { receipt: "m-1" } },
    { name: "200 without an id", reply: { status: 200, body: { id: "" } }, expect: { kind: "transient" } },
    {
      name: "a dead token, quoted",
      reply: (token: string) => ({ status: 404, body: { error: "unregistered", token } }),
      expect: { kind: "dead_token", code: "unregistered" },
    },
    {
      name: "a refused access token, twice",
      reply: { status: 401, body: { error: "token_expired" } },
      expect: { kind: "bad_credential", message: /app_key/ },
      requests: 2,
    },
    {
      name: "a key without rights",
      reply: { status: 403, body: { error: "forbidden" } },
      expect: { kind: "bad_credential" },
    },
    { name: "a rate", reply: { status: 429, body: { error: "rate_limited" } }, expect: { kind: "quota" } },
    { name: "too large", reply: { status: 413, body: { error: "payload_too_large" } }, expect: { kind: "too_big" } },
    { name: "a bad field", reply: { status: 400, body: { error: "bad_field" } }, expect: { kind: "bad_request" } },
    { name: "overload", reply: { status: 503, body: { error: "unavailable" } }, expect: { kind: "transient" } },
  ],
  checks: [
    { name: "a key that works", expect: "active" },
    { name: "another key", record: { app_key: "another-key" }, expect: "failing", reason: /app_key/ },
    {
      name: "a vendor that is down",
      arrange: ({ server }: ExamplePushDouble) => server.answerNext({ status: 500 }),
      expect: "readable",
    },
  ],
} as const satisfies Parameters<typeof testNotifier<ExamplePushDouble>>[0];

testNotifier<ExamplePushDouble>(under);

describe("the suite of notifiers", () => {
  it("finds an adapter whose repeats would ring twice, where they must not", async () => {
    const cases = notifierCases<ExamplePushDouble>({ ...under, repeatsAreHarmless: false });
    const repeated = cases.find(({ name }) => name === "is not rung again when it may have rung");
    await expect(repeated?.run()).rejects.toThrow(/it is rung again/);
  });

  it.each(flaws)("finds an adapter that $flaw", async ({ definition, foundBy }) => {
    const found: string[] = [];
    for (const { name, run } of notifierCases<ExamplePushDouble>({ ...under, definition })) {
      if (!foundBy.test(name)) continue;
      await run().catch(() => found.push(name));
    }
    expect(found).not.toEqual([]);
  });
});
