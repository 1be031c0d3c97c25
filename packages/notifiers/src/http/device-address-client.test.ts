/** Over real TLS connections to a played push service of a browser. */
import { systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { startVendorServer, type VendorServer } from "@leafmesh/testkit/notifiers";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { RingError } from "../contract.ts";
import type { DeviceAddressClientOptions } from "./device-address-client.ts";
import { createDeviceAddressClient } from "./index.ts";
import type { VendorClient } from "./vendor-client.ts";

const ENDPOINT = "https://eu.push.example.com/wpush/secret-token";
let service: VendorServer;
const clients: VendorClient[] = [];

beforeAll(async () => {
  service = await startVendorServer({
    hosts: ["eu.push.example.com", "elsewhere.example.com"],
    handle: ({ headers, body }) => ({
      status: 201,
      headers: { location: "/m/1" },
      body: { headers, size: body.length },
    }),
  });
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});
afterAll(() => service.close());

function client(options: Partial<DeviceAddressClientOptions> = {}): VendorClient {
  const network = service.network;
  const made = createDeviceAddressClient({ clock: systemClock, network, hosts: ["push.example.com"], ...options });
  clients.push(made);
  return made;
}

const never = new AbortController().signal;
const send = (from: VendorClient, url = ENDPOINT, signal = never) =>
  from.request({ url, headers: { ttl: "42", authorization: "vapid t=j" }, body: new Uint8Array([0, 255]), signal });

const failure = (request: Promise<unknown>): Promise<RingError> =>
  request.then(
    () => Promise.reject(new Error("it succeeded")),
    (error: RingError) => error,
  );

describe("a request to an address of a device", () => {
  it("brings bytes to a listed host, and its answer back, over kept connections", async () => {
    const before = service.connections;
    const made = client();
    for (let nth = 0; nth < 6; nth++) await send(made);
    const { status, headers, json } = await send(made);
    expect([status, headers.location]).toEqual([201, "/m/1"]);
    expect(json).toMatchObject({ size: 2, headers: { host: "eu.push.example.com", ttl: "42" } });
    expect(service.connections - before).toBeLessThanOrEqual(2);
  });

  it.each([
    ["https://elsewhere.example.com/x", "not_listed"],
    ["http://eu.push.example.com/x", "not_https"],
    ["https://eu.push.example.com:8443/x", "not_listed"],
    ["https://127.0.0.1/x", "not_public"],
  ])("never goes to %s", async (url, code) => {
    const before = service.connections;
    expect(await failure(send(client(), url))).toMatchObject({ kind: "bad_request", code });
    expect(service.connections).toBe(before);
  });

  it("takes nothing along to where it is redirected", async () => {
    service.answerNext({ status: 307, headers: { location: "https://elsewhere.example.com/steal" } });
    const before = service.requests.length;
    expect(await send(client())).toMatchObject({ status: 307 });
    expect(service.requests.slice(before).map(({ host }) => host)).toEqual(["eu.push.example.com"]);
  });

  it("says when to come back", async () => {
    service.answerNext({ status: 429, headers: { "retry-after": "9" } });
    expect(await send(client())).toMatchObject({ status: 429, retryAfterMs: 9_000 });
  });

  it.each(["hang", "stall"] as const)("ends in its time: %s", async (fault) => {
    const clock = createFakeClock();
    service.answerNext(fault);
    const count = service.requests.length;
    const failing = failure(send(client({ clock })));
    await service.received(count + 1);
    await clock.advance(8_000);
    expect(await failing).toMatchObject({ kind: "transient", code: "timeout", mayHaveRung: true });
    expect(clock.pendingTimers).toBe(0);
  });

  it.each([
    ["cut", /^UND_ERR_SOCKET|ECONNRESET$/],
    ["flood", /^answer_too_large$/],
  ] as const)("fails as transient: %s", async (fault, code) => {
    service.answerNext(fault);
    const error = await failure(send(client({ repeatsAreHarmless: false })));
    expect(error).toMatchObject({ kind: "transient", mayHaveRung: true, isRepeatable: false });
    expect(error.code).toMatch(code);
    expect(error.message).not.toContain("secret-token");
  });

  it("ends with its signal, and is not begun after the end", async () => {
    const stop = new AbortController();
    service.answerNext("hang");
    const count = service.requests.length;
    const made = client();
    const failing = failure(send(made, ENDPOINT, stop.signal));
    await service.received(count + 1);
    stop.abort();
    expect(await failing).toMatchObject({ code: "aborted" });
    await made.close();
    expect(await failure(send(made))).toMatchObject({ code: "closed" });
  });
});
