import { randomId, silentLogger, systemClock } from "@leafmesh/protocol";
import { ABLY_ERRORS, type AblyDoubleOptions, startAblyDouble } from "@leafmesh/testkit/ably";
import { describe, expect, it, onTestFinished } from "vitest";
import type { RoomErrorKind } from "../contract.ts";
import { ablyRoom } from "./ably.ts";
import { ablyRoomError, isCertainRefusal } from "./ably-errors.ts";

const soon = (): AbortSignal => AbortSignal.timeout(5_000);

async function double(options: AblyDoubleOptions = {}) {
  const started = await startAblyDouble(options);
  onTestFinished(() => started.close());
  return started;
}

function provider(record: Readonly<Record<string, string>>) {
  const dependencies = {
    ...{ clock: systemClock, logger: silentLogger, newId: randomId },
    scope: { share: <Value>(_key: string, make: () => Value) => make() },
  };
  return ablyRoom.create(ablyRoom.options.parse(record), dependencies);
}

describe("an ably record", () => {
  it.each([
    ["half a key", { api_key: "appId.keyId" }, "appId.keyId:secret"],
    ["no key", {}, "expected string"],
    ["an address as endpoint", { api_key: "a.b:c", endpoint: "https://main.ably.net" }, "without https://"],
    ["a field of another provider", { api_key: "a.b:c", subscribe_key: "x" }, "Unrecognized key"],
  ])("with %s is refused, and says what to write", (_title, record, sentence) => {
    expect(ablyRoom.options.safeParse(record).error?.message).toContain(sentence);
  });
});

describe("the test of an ably connection", () => {
  it("is active when the key may do all that rooms need", async () => {
    const { key, endpoint } = await double();
    expect(await provider({ api_key: key, endpoint }).check(soon())).toEqual({ status: "active" });
  });

  it("names the rights that the key lacks", async () => {
    const { key, endpoint } = await double({ capability: { "leafmesh:*": ["subscribe", "presence"] } });
    expect(await provider({ api_key: key, endpoint }).check(soon())).toEqual({
      status: "failing",
      reason: "The Ably key may not publish on leafmesh:* channels: add it in your Ably app → API Keys.",
    });
  });

  it("says when the key has none of them", async () => {
    const { key, endpoint } = await double({ capability: { "chat:*": ["*"] } });
    expect(await provider({ api_key: key, endpoint }).check(soon())).toMatchObject({
      status: "failing",
      reason: expect.stringContaining("publish, subscribe and presence on leafmesh:*"),
    });
  });

  it("says when the secret is another", async () => {
    const { key, endpoint } = await double();
    const check = await provider({ api_key: `${key}-not`, endpoint }).check(soon());
    expect(check).toMatchObject({ status: "failing", reason: expect.stringContaining("copy the whole key again") });
    expect(JSON.stringify(check)).not.toContain("ably-key-secret");
  });

  it.each([
    ["Ably is in trouble", { code: 50_000, statusCode: 500, message: "internal" }, "readable"],
    ["too much was asked", { code: 42_910, statusCode: 429, message: "rate" }, "readable"],
    ["the account is used up", { code: 40_111, statusCode: 401, message: "limit" }, "failing"],
    ["the app is disabled", { code: 40_300, statusCode: 403, message: "disabled" }, "failing"],
  ] as const)("tells %s apart", async (_title, error, status) => {
    const ably = await double();
    ably.refuse("requestToken", error);
    expect(await provider({ api_key: ably.key, endpoint: ably.endpoint }).check(soon())).toMatchObject({ status });
  });

  it("has no verdict when nobody answers", async () => {
    const { key } = await double();
    expect(await provider({ api_key: key, endpoint: "127.0.0.1:1" }).check(soon())).toMatchObject({
      status: "readable",
    });
  });
});

describe("an error of Ably", () => {
  it.each([
    [40_005, 400, "bad_credential"],
    [40_101, 401, "bad_credential"],
    [40_131, 401, "bad_credential"],
    [40_132, 401, "bad_credential"],
    [40_160, 401, "bad_credential"],
    [40_110, 401, "bad_credential"],
    [40_300, 403, "bad_credential"],
    [40_332, 403, "bad_credential"],
    [40_111, 401, "plan_limit"],
    [40_112, 401, "plan_limit"],
    [40_114, 401, "plan_limit"],
    [40_115, 401, "plan_limit"],
    [42_910, 429, "rate"],
    [42_922, 429, "rate"],
    [42_999, 429, "rate"],
    [40_009, 400, "too_big"],
    [50_000, 500, "unavailable"],
    [50_003, 503, "unavailable"],
    [80_003, 404, "unavailable"],
    [80_014, 504, "unavailable"],
    [90_007, 404, "unavailable"],
    [40_003, 400, "mismatch"],
  ] as const)("with code %i is %s", (code, statusCode, kind: RoomErrorKind | number) => {
    const error = ablyRoomError({ code, statusCode, message: "appId.keyId:secret" });
    expect(error).toMatchObject({ kind, code: String(code) });
    expect(error.message).not.toContain("secret");
    expect(error.message).toContain(`(Ably code ${code})`);
  });

  it("says whether the message certainly stayed", () => {
    for (const code of [40_009, 40_160, 42_911]) expect(isCertainRefusal({ code })).toBe(true);
    for (const code of [50_000, 80_003, 80_017, undefined]) expect(isCertainRefusal({ code })).toBe(false);
    expect(isCertainRefusal(ABLY_ERRORS.tooLarge)).toBe(true);
    expect(isCertainRefusal(new Error("?"))).toBe(false);
  });
});
