import { describe, expect, it } from "vitest";
import { createGuardedLookup, judgeAddress } from "./address-guard.ts";

describe("judgeAddress", () => {
  it.each([
    "169.254.169.254",
    "169.254.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "fe80::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::169.254.169.254",
    "64:ff9b::100.100.100.200",
    "64:ff9b::192.0.0.192",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "ff02::1",
  ])("never allows %s", (address) => {
    expect(judgeAddress(address, true)).toBe("metadata_address");
    expect(judgeAddress(address, false)).toBe("metadata_address");
  });

  it.each(["127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "::1", "fd12::1"])(
    "allows %s without TLS",
    (address) => {
      expect(judgeAddress(address, true)).toBeUndefined();
    },
  );

  it.each(["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111"])("allows %s with TLS only", (address) => {
    expect(judgeAddress(address, false)).toBeUndefined();
    expect(judgeAddress(address, true)).toBe("plaintext_address");
  });

  it("leaves names to the look-up", () => {
    expect(judgeAddress("metadata.google.internal", true)).toBeUndefined();
  });
});

describe("createGuardedLookup", () => {
  const found = (...addresses: readonly string[]) =>
    addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));

  function look(addresses: ReturnType<typeof found>, isPlaintext: boolean, all: boolean): Promise<unknown[]> {
    const lookup = createGuardedLookup(isPlaintext, (_hostname, _options, callback) => callback(null, addresses));
    return new Promise((resolve) => lookup("models.example", { all }, (...result) => resolve(result)));
  }

  it("gives one address, or all of them", async () => {
    const addresses = found("10.0.0.1", "fd12::1");
    expect(await look(addresses, true, false)).toEqual([null, "10.0.0.1", 4]);
    expect(await look(addresses, true, true)).toEqual([null, addresses]);
  });

  it("fails when any of them is not allowed", async () => {
    const mixed = found("8.8.8.8", "169.254.169.254");
    expect(await look(mixed, false, true)).toMatchObject([{ code: "metadata_address" }, []]);
    expect(await look(found("10.0.0.1", "8.8.8.8"), true, true)).toMatchObject([{ code: "plaintext_address" }, []]);
    expect(await look(found("8.8.8.8"), false, false)).toEqual([null, "8.8.8.8", 4]);
  });

  it("passes a failure on", async () => {
    const failure = Object.assign(new Error("no"), { code: "ENOTFOUND" });
    const lookup = createGuardedLookup(false, (_hostname, _options, callback) => callback(failure, []));
    const result = new Promise((resolve) => lookup("models.example", {}, (...given) => resolve(given)));
    expect(await result).toEqual([failure, []]);
  });
});
