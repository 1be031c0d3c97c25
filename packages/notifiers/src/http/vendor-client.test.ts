/** Over real TLS connections to a played vendor. */
import { inspect } from "node:util";
import { systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { startVendorServer, type VendorServer } from "@leafmesh/testkit/notifiers";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RingError } from "../contract.ts";
import { createVendorClient, type VendorClient, type VendorClientOptions } from "./vendor-client.ts";

const URL_OF_VENDOR = "https://push.example.com/send?app=1";
let vendor: VendorServer;
const clients: VendorClient[] = [];

beforeAll(async () => {
  vendor = await startVendorServer({
    hosts: ["push.example.com"],
    handle: ({ httpVersion, host, target, text }) => ({ status: 200, body: { httpVersion, host, target, text } }),
  });
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await vendor.allClosed();
});
afterAll(() => vendor.close());

function client(options: Partial<VendorClientOptions> = {}): VendorClient {
  const made = createVendorClient({ clock: systemClock, network: vendor.network, ...options });
  clients.push(made);
  return made;
}

const never = new AbortController().signal;
const send = (from: VendorClient, more: { signal?: AbortSignal; url?: string } = {}) =>
  from.request({ url: URL_OF_VENDOR, body: "{}", signal: never, ...more });

/** What a request failed with. */
async function failure(request: Promise<unknown>): Promise<RingError> {
  return request.then(
    () => Promise.reject(new Error("it succeeded")),
    (error: RingError) => error,
  );
}

describe("a request", () => {
  it("keeps an HTTP/2 connection that nobody uses for as long as it is told", async () => {
    await send(client({ http2: true, keepAliveMs: 100 }));
    expect(vendor.openConnections).toBe(1);
    await vendor.allClosed();
  });

  it("reaches the vendor under its own name, and brings the answer", async () => {
    const answer = await send(client());
    expect(answer).toMatchObject({ status: 200, retryAfterMs: undefined });
    expect(answer.json).toEqual({ httpVersion: "1.1", host: "push.example.com", target: "/send?app=1", text: "{}" });
    expect(answer.json).toEqual(JSON.parse(answer.text));
  });

  it("speaks HTTP/2 where that is wanted, all over one connection", async () => {
    const before = vendor.connections;
    const made = client({ http2: true });
    const answers = await Promise.all(Array.from({ length: 10 }, () => send(made)));
    expect(answers.map(({ json }) => json)).toEqual(Array(10).fill(expect.objectContaining({ httpVersion: "2.0" })));
    expect(vendor.connections - before).toBe(1);
  });

  // Two: the pool opens another one when a request comes in the very moment in which the last one ends.
  it("keeps its connections for the next ones", async () => {
    const before = vendor.connections;
    const made = client();
    for (let turn = 0; turn < 8; turn++) await send(made);
    expect(vendor.connections - before).toBeLessThanOrEqual(2);
  });

  it("waits for no other one, up to as many as it is told", async () => {
    const [before, stop] = [vendor.requests.length, new AbortController()];
    const made = client({ connections: 20 });
    const held = Array.from({ length: 20 }, () => {
      vendor.answerNext("hang");
      return failure(send(made, { signal: stop.signal }));
    });
    await vendor.received(before + 20);
    stop.abort();
    expect(new Set((await Promise.all(held)).map(({ code }) => code))).toEqual(new Set(["aborted"]));
  });

  it("follows no redirect, and takes an answer that is no JSON", async () => {
    vendor.answerNext({ status: 302, headers: { location: "https://push.example.com/other" }, body: "moved" });
    const before = vendor.requests.length;
    expect(await send(client())).toMatchObject({ status: 302, text: "moved", json: undefined });
    expect(vendor.requests.length - before).toBe(1);
  });

  it.each([
    ["7", 7_000],
    ["Fri, 15 Jan 2027 08:00:09 GMT", 9_000],
    ["1e9", undefined],
    ["99999999", 3_600_000],
  ])("says when to come back: %s", async (header, retryAfterMs) => {
    vendor.answerNext({ status: 503, headers: { "retry-after": header } });
    expect(await send(client({ clock: createFakeClock() }))).toMatchObject({ status: 503, retryAfterMs });
  });
});

describe("a request that gets no whole answer", () => {
  it.each(["hang", "stall"] as const)("ends in its time: %s", async (fault) => {
    const clock = createFakeClock();
    vendor.answerNext(fault);
    const count = vendor.requests.length;
    const failing = failure(send(client({ clock })));
    await vendor.received(count + 1);
    await clock.advance(8_000);
    expect(await failing).toMatchObject({ kind: "transient", code: "timeout", mayHaveRung: true, isRepeatable: true });
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([
    ["cut", /closed the connection before/],
    ["flood", /answer is over 65536 bytes/],
  ] as const)("fails as transient, and may have arrived: %s", async (fault, message) => {
    vendor.answerNext(fault);
    const error = await failure(send(client()));
    expect(error).toMatchObject({ kind: "transient", mayHaveRung: true, isRepeatable: true });
    expect(error.message).toMatch(message);
  });

  it("is not to be repeated where that would ring twice", async () => {
    vendor.answerNext("cut");
    expect(await failure(send(client({ repeatsAreHarmless: false })))).toMatchObject({ isRepeatable: false });
  });

  it.each([
    ["nobody listens there", 1, "ECONNREFUSED"],
    ["its certificate is not trusted", undefined, /CERT|ISSUER|SIGNATURE/],
  ])("has certainly not arrived when %s", async (_why, port, code) => {
    const route = port === undefined ? vendor.network.route : () => ({ host: "127.0.0.1", port });
    const error = await failure(send(client({ network: { ca: "", route }, repeatsAreHarmless: false })));
    expect(error).toMatchObject({ kind: "transient", mayHaveRung: false, isRepeatable: true });
    expect(error.code).toMatch(code);
  });

  it("trusts only a certificate for the vendor's own name", async () => {
    const network = { ca: vendor.network.ca, route: () => vendor.network.route("push.example.com", 443) };
    const error = await failure(send(client({ network }), { url: "https://other.example.com/" }));
    expect(error).toMatchObject({ code: "ERR_TLS_CERT_ALTNAME_INVALID", mayHaveRung: false });
  });

  it("ends with its signal, and closes the connection", async () => {
    const stop = new AbortController();
    vendor.answerNext("hang");
    const count = vendor.requests.length;
    const failing = failure(send(client(), { signal: stop.signal }));
    await vendor.received(count + 1);
    stop.abort();
    expect(await failing).toMatchObject({ kind: "transient", code: "aborted" });
    await vendor.allClosed();
  });

  it("is not begun when its signal fired before, or after the end", async () => {
    const count = vendor.requests.length;
    expect(await failure(send(client(), { signal: AbortSignal.abort() }))).toMatchObject({ code: "aborted" });
    const made = client();
    await made.close();
    expect(await failure(send(made))).toMatchObject({ code: "closed", isRepeatable: false });
    expect(vendor.requests.length).toBe(count);
  });
});

it("shows nothing of the address in what it throws", async () => {
  vendor.answerNext("cut");
  const error = await failure(send(client(), { url: "https://push.example.com/3/device/secret-token" }));
  expect(inspect(error, { depth: 10, showHidden: true })).not.toContain("secret-token");
});
