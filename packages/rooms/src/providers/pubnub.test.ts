import { randomId, silentLogger, systemClock } from "@leafmesh/protocol";
import { PUBNUB_REFUSALS, type PubNubDoubleOptions, startPubNubDouble } from "@leafmesh/testkit/pubnub";
import { describe, expect, it, onTestFinished } from "vitest";
import type { RoomErrorKind } from "../contract.ts";
import { pubnubRoom } from "./pubnub.ts";
import { isCertainRefusal, pubnubRoomError } from "./pubnub-errors.ts";

const soon = (): AbortSignal => AbortSignal.timeout(8_000);

async function double(options: PubNubDoubleOptions = {}) {
  const started = await startPubNubDouble(options);
  onTestFinished(() => started.close());
  const { publishKey, subscribeKey, secretKey } = started.keys;
  const record = {
    publish_key: publishKey,
    subscribe_key: subscribeKey,
    secret_key: secretKey,
    origin: started.origin,
  };
  return { ...started, record };
}

function check(record: Readonly<Record<string, string>>) {
  const dependencies = {
    ...{ clock: systemClock, logger: silentLogger, newId: randomId },
    scope: { share: <Value>(_key: string, make: () => Value) => make() },
  };
  return pubnubRoom.create(pubnubRoom.options.parse(record), dependencies).check(soon());
}

describe("a pubnub record", () => {
  const good = { publish_key: "pub-c-1", subscribe_key: "sub-c-1", secret_key: "sec-c-1" };
  it.each([
    ["keys that were exchanged", { ...good, publish_key: "sub-c-1" }, "it begins with pub-"],
    ["no secret key", { publish_key: "pub-c-1", subscribe_key: "sub-c-1" }, "secret_key"],
    ["an address as origin", { ...good, origin: "https://ps.pndsn.com" }, "without https://"],
    ["a field of another provider", { ...good, api_key: "x" }, "Unrecognized key"],
  ])("with %s is refused, and says what to write", (_title, record, sentence) => {
    expect(pubnubRoom.options.safeParse(record).error?.message).toContain(sentence);
  });
});

describe("the test of a pubnub connection", () => {
  it("is active when the keys may do all that rooms need", async () => {
    const { record } = await double();
    expect(await check(record)).toEqual({ status: "active" });
  });

  it("says when Access Manager is off", async () => {
    const { record } = await double({ accessManager: false });
    expect(await check(record)).toMatchObject({ status: "failing", reason: expect.stringContaining("Access Manager") });
  });

  it("says when Presence is off", async () => {
    const { record, refuse } = await double();
    refuse("presence", PUBNUB_REFUSALS.presenceOff);
    expect(await check(record)).toMatchObject({
      status: "failing",
      reason: expect.stringContaining("Presence is off"),
    });
  });

  it.each([
    ["secret_key", "sec-c-another", "check the secret key"],
    ["subscribe_key", "sub-c-another", "copy both again"],
    ["publish_key", "pub-c-another", "check the secret key"],
  ] as const)("says when the %s is another", async (field, key, sentence) => {
    const { record } = await double();
    const result = await check({ ...record, [field]: key });
    expect(result).toMatchObject({ status: "failing", reason: expect.stringContaining(sentence) });
    expect(JSON.stringify(result)).not.toMatch(/sec-c-/);
  });

  it.each([
    ["trouble", "readable"],
    ["rate", "readable"],
    ["quota", "failing"],
  ] as const)("tells %s apart", async (refusal, status) => {
    const { record, refuse } = await double();
    refuse("grant", PUBNUB_REFUSALS[refusal]);
    expect(await check(record)).toMatchObject({ status });
  });

  it("has no verdict when nobody answers", async () => {
    const { record } = await double();
    expect(await check({ ...record, origin: "127.0.0.1:1" })).toMatchObject({ status: "readable" });
  });
});

describe("an answer of PubNub", () => {
  it.each([
    [403, "Forbidden", "bad_credential"],
    [401, "", "bad_credential"],
    [400, "Invalid Key", "bad_credential"],
    [403, "Account quota exceeded", "plan_limit"],
    [400, "channel quota exceeded", "plan_limit"],
    [429, "", "rate"],
    [413, "", "too_big"],
    [414, "", "too_big"],
    [400, "Message Too Large", "too_big"],
    [400, "Invalid JSON", "mismatch"],
    [500, "", "unavailable"],
    [503, "", "unavailable"],
    [0, "", "unavailable"],
  ] as const)("%i %j is %s", (statusCode, message, kind: RoomErrorKind) => {
    const error = pubnubRoomError(Object.assign(new Error("x"), { status: { statusCode, errorData: { message } } }));
    expect(error.kind).toBe(kind);
    if (message !== "") expect(error.message).not.toContain(message);
  });

  it("says whether the message certainly stayed", () => {
    const of = (statusCode: number) => ({ status: { statusCode } });
    for (const code of [400, 403, 413, 429]) expect(isCertainRefusal(of(code))).toBe(true);
    for (const code of [0, 500, 503]) expect(isCertainRefusal(of(code))).toBe(false);
    expect(isCertainRefusal(new Error("?"))).toBe(false);
  });
});
