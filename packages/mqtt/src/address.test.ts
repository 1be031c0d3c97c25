import { describe, expect, it } from "vitest";
import { isLoopback, parseBrokerAddress } from "./address.ts";

function parsed(text: string) {
  const result = parseBrokerAddress(text);
  if (!result.ok) throw new Error(result.issue);
  return result.address;
}

function issueOf(text: string): string {
  const result = parseBrokerAddress(text);
  return result.ok ? "" : result.issue;
}

describe("parseBrokerAddress", () => {
  it.each([
    ["mqtt://broker.example.com", "mqtt", false, "broker.example.com", 1883, "/"],
    ["mqtts://broker.example.com", "mqtts", true, "broker.example.com", 8883, "/"],
    ["ws://broker.example.com/mqtt", "ws", false, "broker.example.com", 80, "/mqtt"],
    ["wss://broker.example.com:443/mqtt", "wss", true, "broker.example.com", 443, "/mqtt"],
    ["MQTTS://Broker.Example.com:80/", "mqtts", true, "broker.example.com", 80, "/"],
    ["mqtt://[::1]:1884", "mqtt", false, "::1", 1884, "/"],
    ["mqtt://2130706433:1883", "mqtt", false, "127.0.0.1", 1883, "/"],
  ])("%s", (text, scheme, secure, host, port, path) => {
    expect(parsed(text)).toMatchObject({ scheme, secure, host, port, path });
  });

  it("names the broker as people write it", () => {
    expect(parsed("mqtts://[fd00::7]").label).toBe("[fd00::7]:8883");
  });

  it.each([
    ["broker.example.com", /such as mqtts:\/\/broker/],
    ["tcp://broker:1883", /start with mqtt:\/\/ instead of tcp:/],
    ["ssl://broker:8883", /start with mqtts:\/\/ instead of ssl:/],
    ["https://broker/mqtt", /start with wss:\/\/ instead of https:/],
    ["ftp://broker", /start with mqtt:\/\/, mqtts:\/\/, ws:\/\/ or wss:/],
    ["mqtt://user:pass@broker", /use the fields username and password/],
    ["mqtt://broker?clientId=x", /must not have a query/],
    ["mqtt://broker#x", /must not have a fragment/],
    ["mqtts://broker/mqtt", /must not have a path with mqtts:/],
    ["mqtt://broker:0", /port 0/],
    ["mqtt://broker:99999", /not a valid address/],
    ["mqtt://", /not a valid address/],
  ])("refuses %s and names the cure", (text, cure) => {
    expect(issueOf(text)).toMatch(cure);
  });
});

describe("isLoopback", () => {
  it.each(["mqtt://localhost", "mqtt://127.0.0.1", "mqtt://127.9.9.9", "mqtt://[::1]", "mqtt://127.1", "ws://0x7f.1"])(
    "%s is this machine",
    (text) => expect(isLoopback(parsed(text))).toBe(true),
  );
  it.each(["mqtt://broker", "mqtt://10.0.0.1", "mqtt://localhost.example.com", "mqtt://127.0.0.1.example.com"])(
    "%s is not",
    (text) => expect(isLoopback(parsed(text))).toBe(false),
  );
});
