/** An SNS that somebody else wrote takes the rings, and checks their signatures with Amazon's own signer. */
import { randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Moto, motoMissing, startMoto } from "../../testing/moto.ts";
import { type Key, makeKey, queryMoto } from "../../testing/moto-keys.ts";
import { RingError, type RingRequest } from "../contract.ts";
import { snsNotifier } from "./sns.ts";

const REGION = "eu-west-1";
const HOSTS = [`sns.${REGION}.amazonaws.com`, `sts.${REGION}.amazonaws.com`, "iam.amazonaws.com"];
const SNS = { host: `sns.${REGION}.amazonaws.com`, service: "sns", region: REGION, version: "2010-03-31" };
const never = new AbortController().signal;
const missing = motoMissing();

describe.skipIf(missing)(`SNS by moto${missing ? `, left out since ${missing}` : ""}`, () => {
  let moto: Moto;
  let keys: Readonly<Record<"all" | "publish" | "list", Key>>;
  let endpoints: Readonly<Record<"phone" | "off", string>>;

  beforeAll(async () => {
    moto = await startMoto(HOSTS);
    keys = {
      all: await makeKey(moto, "all", ["sns:Publish", "sns:ListPlatformApplications"]),
      publish: await makeKey(moto, "publish", ["sns:Publish"]),
      list: await makeKey(moto, "list", ["sns:ListPlatformApplications"]),
    };
    const attribute = (key: string, value: string) => ({
      ...{ "Attributes.entry.1.key": key, "Attributes.entry.1.value": value },
    });
    const [application = ""] = await queryMoto(
      moto,
      SNS,
      { Action: "CreatePlatformApplication", Name: "my-app", Platform: "GCM", ...attribute("PlatformCredential", "x") },
      "PlatformApplicationArn",
    );
    const endpoint = async (Token: string, enabled: string): Promise<string> => {
      const fields = { Action: "CreatePlatformEndpoint", PlatformApplicationArn: application, Token };
      const [arn = ""] = await queryMoto(moto, SNS, { ...fields, ...attribute("Enabled", enabled) }, "EndpointArn");
      return arn;
    };
    endpoints = { phone: await endpoint("a", "true"), off: await endpoint("b", "false") };
    await moto.guard();
  }, 30_000);
  afterAll(() => moto?.stop());

  const open = (key: Key) => {
    const notifier = snsNotifier.create(snsNotifier.options.parse({ region: REGION, ...key }), {
      ...{ clock: systemClock, logger: silentLogger, newId: randomId, network: moto.network },
      scope: { share: (_key, make) => make() },
    });
    onTestFinished(() => notifier.close());
    return notifier;
  };
  const request = (mark: string): RingRequest => ({
    ring: {
      ...{ v: 1, ask: "ask_1", device: "phone-7", approval: "ask", iat: 1, exp: 2 },
      join: { provider: "leafmesh", room: "room-1" },
    },
    ...{ body: JSON.stringify({ mark }), collapseKey: "ask_1", ttlMs: 40_000, approval: "ask" },
  });
  const failure = (ringing: Promise<unknown>): Promise<unknown> =>
    ringing.then(
      () => expect.fail("it did not fail"),
      (error: unknown) => (error instanceof RingError ? `${error.kind} ${error.code}` : error),
    );

  it("queues a ring that is signed as Amazon's own signer would", async () => {
    const mark = "a ring & <more> +1% 🌿";
    const { id } = await open(keys.publish).ring(request(mark), new Secret(endpoints.phone), never);
    expect(id).toMatch(/^[\da-f-]{36}$/);
    expect(await moto.kept()).toContain(id);
  });

  it.each([
    ["an endpoint that is disabled", () => [keys.publish, endpoints.off], "dead_token EndpointDisabled"],
    [
      "an endpoint that is gone",
      () => [keys.publish, endpoints.phone.replace(/.{12}$/, "0123456789ab")],
      "dead_token NotFound",
    ],
    [
      "another secret",
      () => [{ ...keys.publish, secret_access_key: keys.list.secret_access_key }, endpoints.phone],
      "bad_credential SignatureDoesNotMatch",
    ],
    ["a key that may not publish", () => [keys.list, endpoints.phone], "bad_credential AccessDenied"],
    [
      "a key that is none",
      () => [{ ...keys.publish, access_key_id: "AKIANOBODY0000000000" }, endpoints.phone],
      "bad_credential InvalidClientTokenId",
    ],
  ] as readonly (readonly [string, () => readonly [Key, string], string])[])(
    "refuses %s",
    async (_name, given, expected) => {
      const [key, to] = given();
      expect(await failure(open(key).ring(request("x"), new Secret(to), never))).toBe(expected);
    },
  );

  it.each([
    ["all", "active"],
    ["publish", "active"],
    ["list", "failing"],
  ] as const)("agrees with the check of a key that may %s", async (name, status) => {
    expect(await open(keys[name]).check(never)).toMatchObject({ status });
  });
});
