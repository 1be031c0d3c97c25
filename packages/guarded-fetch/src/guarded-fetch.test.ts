import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { systemClock } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import {
  AnswerTooLarge,
  createGuardedFetch,
  type GuardedFetch,
  judgePublicUrl,
  type ResolveAll,
} from "./guarded-fetch.ts";
import { isPublicAddress } from "./public-address.ts";

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

function guarded(resolve?: ResolveAll, clock = systemClock): GuardedFetch {
  const fetch = createGuardedFetch({ clock, resolve });
  closing.push(() => fetch.close());
  return fetch;
}

const post = (url: string, more: object = {}) => ({
  url,
  headers: { "content-type": "application/json" },
  body: "{}",
  timeoutMs: 5_000,
  maxBytes: 1_000,
  signal: new AbortController().signal,
  ...more,
});

/** Resolves every name to these addresses, and counts. */
function resolveTo(...addresses: readonly string[]) {
  const asked: string[] = [];
  const resolve: ResolveAll = (hostname, _options, callback) => {
    asked.push(hostname);
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
    );
  };
  return { asked, resolve };
}

describe("an address of the public internet", () => {
  it.each(["8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "2a00:1450::1"])(
    "is %s",
    (address) => expect(isPublicAddress(address)).toBe(true),
  );
  it.each([
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::a9fe:a9fe",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "ff02::1",
    "example.com",
    "",
  ])("is not %s", (address) => expect(isPublicAddress(address)).toBe(false));
});

describe("an address that came with a request", () => {
  it.each([
    ["https://example.com/hook?a=b", undefined],
    ["https://8.8.8.8/", undefined],
    ["http://example.com/", "not_https"],
    ["https://u@example.com/", "bad_url"],
    ["https://u:p@example.com/", "bad_url"],
    ["file:///etc/passwd", "bad_url"],
    ["not an address", "bad_url"],
    ["https://127.1/", "not_public"],
    ["https://0177.0.0.1/", "not_public"],
    ["https://0x7f000001/", "not_public"],
    ["https://2130706433/", "not_public"],
    ["https://[::1]/", "not_public"],
    ["https://[::ffff:10.0.0.1]/", "not_public"],
    ["https://127.0.0.1\u3002/", "not_public"],
  ])("%s: %s", (url, reason) => expect(judgePublicUrl(url, [])).toBe(reason));

  it("may be one that the operator lists, by origin and port", () => {
    expect(judgePublicUrl("http://127.0.0.1:9000/x", ["http://127.0.0.1:*"])).toBeUndefined();
    expect(judgePublicUrl("http://127.0.0.1:9000/x", ["http://127.0.0.1:9001"])).toBe("not_https");
    expect(judgePublicUrl("http://127.0.0.1/x", ["http://127.0.0.1"])).toBeUndefined();
    expect(judgePublicUrl("http://127.0.0.1:81/x", ["http://127.0.0.1"])).toBe("not_https");
    expect(judgePublicUrl("http://[::1]:81/x", ["http://[::1]:*"])).toBeUndefined();
    expect(judgePublicUrl("https://hooks.internal/", ["https://hooks.internal"])).toBeUndefined();
    expect(judgePublicUrl("http://127.0.0.1.evil.example/", ["http://127.0.0.1:*"])).toBe("not_https");
  });

  it.each([[["127.0.0.1"]], [["8.8.8.8", "10.0.0.1"]], [["2606:4700::1111", "::1"]], [["::ffff:169.254.169.254"]]])(
    "whose name leads to %s goes nowhere",
    async (addresses) => {
      const { asked, resolve } = resolveTo(...addresses);
      await expect(guarded(resolve).postPublic(post("https://rebind.example/"), [])).rejects.toMatchObject({
        reason: "not_public",
      });
      expect(asked).toEqual(["rebind.example"]);
    },
  );

  it("that the operator lists never leads to the credentials of the machine", async () => {
    const { resolve } = resolveTo("169.254.169.254");
    await expect(
      guarded(resolve).postPublic(post("https://metadata.example/"), ["https://metadata.example"]),
    ).rejects.toMatchObject({ code: "metadata_address" });
  });
});

describe("an address that a device gave", () => {
  const hosts = ["push.example"];

  it("goes nowhere, and is not even looked up, when it is not listed", async () => {
    const { asked, resolve } = resolveTo("8.8.8.8");
    await expect(guarded(resolve).postListed(post("https://evil-push.example/"), hosts)).rejects.toMatchObject({
      reason: "not_listed",
    });
    expect(asked).toEqual([]);
  });

  it("goes nowhere when a listed name leads into a private network", async () => {
    const { asked, resolve } = resolveTo("8.8.8.8", "127.0.0.1");
    await expect(guarded(resolve).postListed(post("https://eu.push.example/"), hosts)).rejects.toMatchObject({
      reason: "not_public",
    });
    expect(asked).toEqual(["eu.push.example"]);
  });
});

describe("a call", () => {
  it("goes to exactly the address that was checked: the name is asked for once", async () => {
    let host: string | undefined;
    const url = new URL(
      await serve((incoming, response) => {
        host = incoming.headers.host;
        response.end("hello");
      }),
    );
    const { asked, resolve } = resolveTo("127.0.0.1");
    const named = `http://tool.internal:${url.port}/`;
    expect(await guarded(resolve).postOperator(post(named))).toMatchObject({ status: 200, body: "hello" });
    expect(asked).toEqual(["tool.internal"]);
    expect(host).toBe(`tool.internal:${url.port}`);
  });

  it("follows no redirect", async () => {
    let visits = 0;
    const target = await serve((_incoming, response) => {
      visits++;
      response.end();
    });
    const url = await serve((_incoming, response) => response.writeHead(302, { location: target }).end());
    expect(await guarded().postPublic(post(url), ["http://127.0.0.1:*"])).toMatchObject({ status: 302 });
    expect(visits).toBe(0);
  });

  it("ends when the answer is too large", async () => {
    const url = await serve((_incoming, response) => response.end("x".repeat(1_001)));
    await expect(guarded().postOperator(post(url))).rejects.toBeInstanceOf(AnswerTooLarge);
  });

  it("ends when no answer comes in time", async () => {
    const clock = createFakeClock();
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const url = await serve(() => resolve());
    const called = guarded(undefined, clock).postOperator(post(url));
    const refused = expect(called).rejects.toThrow("no answer in time");
    await asked;
    await clock.advance(5_000);
    await refused;
    expect(clock.pendingTimers).toBe(0);
  });

  it("ends with its signal, and none begins after the end", async () => {
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const url = await serve(() => resolve());
    const stop = new AbortController();
    const fetch = guarded();
    const refused = expect(fetch.postOperator(post(url, { signal: stop.signal }))).rejects.toThrow("enough");
    await asked;
    stop.abort(new Error("enough"));
    await refused;
    await fetch.close();
    await expect(fetch.postOperator(post(url))).rejects.toThrow("closed");
  });

  it("without TLS stays near", async () => {
    const { resolve } = resolveTo("8.8.8.8");
    await expect(guarded(resolve).postOperator(post("http://far.example/"))).rejects.toMatchObject({
      code: "plaintext_address",
    });
    await expect(guarded().postOperator(post("http://8.8.8.8/"))).rejects.toMatchObject({ reason: "not_public" });
  });
});
