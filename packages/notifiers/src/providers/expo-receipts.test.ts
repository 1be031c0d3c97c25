/** What Apple and Google refuse after Expo has taken it comes into the log, and holds nothing up. */
import { type LogFields, randomId, Secret, silentLogger } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { type ExpoReceipt, startExpo } from "@leafmesh/testkit/notifiers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Notifier, RingRequest } from "../contract.ts";
import { expoNotifier } from "./expo.ts";
import { GATHER_MS, RECEIPT_AFTER_MS, watchReceipts } from "./expo-receipts.ts";

const PHONE = "ExponentPushToken[xY7-qLr_2mKdPz0aB3cD4e]";
const DUE_MS = RECEIPT_AFTER_MS + GATHER_MS;

let clock: ReturnType<typeof createFakeClock>;
let double: Awaited<ReturnType<typeof startExpo>>;
let notifier: Notifier;
let warnings: { readonly message: string; readonly fields: LogFields | undefined }[];
let warned: () => void;

beforeEach(async () => {
  clock = createFakeClock();
  warnings = [];
  warned = () => {};
  double = await startExpo(clock, { devices: { [PHONE]: "@acme/phones" } });
  const unwanted = (message: string): void => expect.fail(message);
  notifier = expoNotifier.create(expoNotifier.options.parse({}), {
    clock,
    logger: {
      debug: unwanted,
      info: unwanted,
      error: unwanted,
      warn(message, fields) {
        warnings.push({ message, fields });
        warned();
      },
    },
    newId: randomId,
    scope: { share: (_key, make) => make() },
    network: double.server.network,
  });
});

afterEach(async () => {
  await notifier.close();
  await double.close();
  expect(clock.pendingTimers).toBe(0);
});

const ring = async (): Promise<string> => {
  const join = { provider: "leafmesh", room: "room-1" };
  const fields = { v: 1, ask: "ask_1", device: "phone-7", approval: "silent", iat: 1, exp: 2, join } as const;
  const request: RingRequest = { ring: fields, body: "{}", collapseKey: "ask_1", ttlMs: 9_000, approval: "silent" };
  const { id } = await notifier.ring(request, new Secret(PHONE), new AbortController().signal);
  return id ?? expect.fail("there is no ticket");
};

const lookups = () => double.server.requests.filter((request) => double.purposeOf(request) === "check");

/** Lets the time of a lookup come, and waits until it has been answered and told. */
const look = async (warningsToCome: number, afterMs = DUE_MS): Promise<void> => {
  const told = new Promise<void>((resolve) => {
    warned = () => {
      if (warnings.length >= warningsToCome) resolve();
    };
  });
  await clock.advance(afterMs);
  await told;
};

const refused = (error: string): ExpoReceipt => ({
  status: "error",
  message: `${PHONE} could not be reached`,
  details: { error, expoPushToken: PHONE },
});

describe("receipts of Expo", () => {
  it("are asked for once, together, when Expo has them", async () => {
    const first = await ring();
    await clock.advance(GATHER_MS);
    const second = await ring();
    await clock.advance(RECEIPT_AFTER_MS - 1);
    expect(lookups()).toEqual([]);
    double.receipts.set(first, refused("InvalidCredentials"));
    await look(1, 1);
    expect(lookups().map(({ json }) => json)).toEqual([{ ids: [first, second] }]);
    expect(warnings).toEqual([
      {
        message: "A ring that Expo had taken did not reach the device",
        fields: { ticket: first, code: "InvalidCredentials", reason: expect.stringContaining("eas credentials") },
      },
    ]);
  });

  it.each([
    ["DeviceNotRegistered", "DeviceNotRegistered"],
    ["MessageTooBig", "MessageTooBig"],
    ["MessageRateExceeded", "MessageRateExceeded"],
    ["MismatchSenderId", "MismatchSenderId"],
    ["ProviderError", "ProviderError"],
    ["constructor", "undocumented"],
  ])("are told without the push token: %s", async (error, code) => {
    const ticket = await ring();
    double.receipts.set(ticket, refused(error));
    await look(1);
    expect(warnings[0]?.fields).toMatchObject({ ticket, code, reason: expect.stringMatching(/^.{10,200}\.$/) });
    expect(JSON.stringify(warnings)).not.toContain("xY7");
  });

  it("that Expo never wrote are counted", async () => {
    double.receipts.delete(await ring());
    double.receipts.delete(await ring());
    await look(1);
    expect(warnings).toEqual([{ message: expect.stringContaining("what became"), fields: { count: 2 } }]);
  });

  it("that cannot be read are told, and not asked for again; later ones are", async () => {
    await ring();
    double.server.answerNext({ status: 503, body: "<html>" }, ({ path }) => path.endsWith("getReceipts"));
    await look(1);
    expect(warnings[0]).toMatchObject({
      message: expect.stringContaining("could not be read"),
      fields: { code: "503" },
    });
    const later = await ring();
    double.receipts.delete(later);
    await look(2);
    expect(lookups().map(({ json }) => json)).toEqual([expect.anything(), { ids: [later] }]);
  });

  it("hold up no close, not in the middle of a lookup either", async () => {
    await ring();
    double.server.answerNext("hang", ({ path }) => path.endsWith("getReceipts"));
    await clock.advance(DUE_MS);
    await double.server.received(2);
    await notifier.close();
    expect(warnings).toEqual([]);
  });

  it("of many rings are asked for in parts", async () => {
    for (let nth = 0; nth < 120; nth++) await ring();
    double.receipts.clear();
    await look(2);
    expect(lookups().map(({ json }) => (json as { ids: string[] }).ids.length)).toEqual([100, 20]);
    expect(warnings.map(({ fields }) => fields)).toEqual([{ count: 100 }, { count: 20 }]);
  });

  it("of more rings than are kept waiting are forgotten, the oldest first", async () => {
    const asked: string[] = [];
    const done = Promise.withResolvers<void>();
    const watch = watchReceipts({
      clock,
      logger: silentLogger,
      async read(tickets) {
        asked.push(...tickets);
        if (tickets.includes("ticket-10001")) done.resolve();
        return { failures: [], missing: [] };
      },
    });
    for (let nth = 0; nth <= 10_001; nth++) watch.add(`ticket-${nth}`);
    await clock.advance(DUE_MS);
    await done.promise;
    expect([asked.length, asked[0]]).toEqual([10_000, "ticket-2"]);
    await watch.close();
    watch.add("after its close");
    expect(clock.pendingTimers).toBe(0);
  });
});
