import { describe, expect, it } from "vitest";
import { operatorHostIssue, operatorLookup, operatorUrlIssue } from "./operator-address.ts";

const https = { secure: "https:", example: "https://rooms.example.com" } as const;

describe("an address of an operator", () => {
  it.each([
    "https://rooms.example.com",
    "https://10.0.0.5:8443/base",
    "https://[fd12::1]",
    "http://localhost:7000",
    "http://127.0.0.1:7000",
    "http://[::1]:7000",
    "http://2130706433",
  ])("may be %s", (url) => {
    expect(operatorUrlIssue(url, https)).toBeUndefined();
  });

  it.each([
    ["rooms.example.com", "must be an address such as https://rooms.example.com"],
    ["ftp://rooms.example.com", "must start with https:// (http:// only on this machine)"],
    ["http://10.0.0.5", "must start with https://"],
    ["http://127.evil.example", "must start with https://"],
    ["https://user:secret@rooms.example.com", "user name or password"],
    ["https://169.254.169.254", "link-local"],
    ["https://0xa9fea9fe", "link-local"],
    ["https://[::ffff:169.254.169.254]", "link-local"],
    ["https://[64:ff9b::a9fe:a9fe]", "link-local"],
    ["https://[fd00:ec2::254]", "metadata"],
    ["https://0.0.0.0", "multicast"],
  ])("may not be %s", (url, issue) => {
    expect(operatorUrlIssue(url, https)).toContain(issue);
  });

  it("may be of a WebSocket", () => {
    const wss = { secure: "wss:", example: "wss://edge.example.com" } as const;
    expect(operatorUrlIssue("wss://edge.example.com/v1", wss)).toBeUndefined();
    expect(operatorUrlIssue("ws://127.0.0.1:1/v1", wss)).toBeUndefined();
    expect(operatorUrlIssue("ws://edge.example.com", wss)).toBe("must start with wss:// (ws:// only on this machine)");
  });
});

describe("a host of an operator", () => {
  it.each(["169.254.169.254", "169.254.0.1", "fe80::1", "febf::1", "[fe80::1]", "::ffff:169.254.1.1", "fd00:ec2::254"])(
    "may not be %s",
    (host) => expect(operatorHostIssue(host)).toMatch(/link-local/),
  );
  it.each(["127.0.0.1", "10.0.0.1", "192.168.1.1", "fd00::1", "::1", "broker.example.com"])("may be %s", (host) => {
    expect(operatorHostIssue(host)).toBeUndefined();
  });
});

describe("the look-up", () => {
  const look = (hostname: string, all: boolean) =>
    new Promise((done) => operatorLookup(hostname, { all }, (error, address) => done(error?.code ?? address)));

  it("resolves a name as Node does, in both forms", async () => {
    expect(await look("127.0.0.1", false)).toBe("127.0.0.1");
    expect(await look("127.0.0.1", true)).toEqual([{ address: "127.0.0.1", family: 4 }]);
  });

  it("refuses a name that leads to a forbidden address, and passes on that one does not exist", async () => {
    expect(await look("169.254.169.254", true)).toBe("metadata_address");
    expect(await look("169.254.169.254", false)).toBe("metadata_address");
    expect(await look("does-not-exist.invalid", true)).toMatch(/ENOTFOUND|EAI_AGAIN/);
  });
});
