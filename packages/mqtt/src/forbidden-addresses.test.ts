import { describe, expect, it } from "vitest";
import { forbiddenHostIssue, guardedLookup } from "./forbidden-addresses.ts";

describe("forbiddenHostIssue", () => {
  it.each(["169.254.169.254", "169.254.0.1", "fe80::1", "febf::1", "::ffff:169.254.1.1", "fd00:ec2::254"])(
    "refuses %s",
    (host) => expect(forbiddenHostIssue(host)).toMatch(/link-local/),
  );
  it.each(["127.0.0.1", "10.0.0.1", "192.168.1.1", "fd00::1", "::1", "broker.example.com"])("allows %s", (host) => {
    expect(forbiddenHostIssue(host)).toBeUndefined();
  });
});

describe("guardedLookup", () => {
  const resolve = (hostname: string, all: boolean) =>
    new Promise((done) => guardedLookup(hostname, { all }, (error, address) => done(error?.code ?? address)));

  it("resolves a name as Node does, in both forms", async () => {
    expect(await resolve("127.0.0.1", false)).toBe("127.0.0.1");
    expect(await resolve("127.0.0.1", true)).toEqual([{ address: "127.0.0.1", family: 4 }]);
  });

  it("refuses a name that leads to a forbidden address", async () => {
    expect(await resolve("169.254.169.254", true)).toBe("ADDRESS_NOT_ALLOWED");
    expect(await resolve("169.254.169.254", false)).toBe("ADDRESS_NOT_ALLOWED");
  });

  it("passes on that a name does not exist", async () => {
    expect(await resolve("does-not-exist.invalid", true)).toMatch(/ENOTFOUND|EAI_AGAIN/);
  });
});
