import { describe, expect, it } from "vitest";
import { isAllowedHttpAddress, isAllowedSocketAddress, isLoopbackAddress } from "./addresses.ts";

describe("isLoopbackAddress", () => {
  it.each([
    "ws://localhost:1",
    "ws://LOCALHOST/x",
    "ws://127.0.0.1",
    "http://127.9.8.7:80",
    "ws://[::1]:9",
    "mqtt://127.0.0.1:1883",
    "mqtts://LocalHost",
  ])("takes %s", (address) => expect(isLoopbackAddress(address)).toBe(true));

  it.each([
    "ws://localhost.example.com",
    "ws://127.0.0.1.example.com",
    "ws://10.0.0.1",
    "ws://127.0.0.1@example.com",
    "ws://0.0.0.0",
    "localhost",
    "",
  ])("does not take %s", (address) => expect(isLoopbackAddress(address)).toBe(false));
});

describe("addresses without TLS", () => {
  it("are for this machine alone", () => {
    expect(isAllowedSocketAddress("ws://127.0.0.1:5/v1/connect")).toBe(true);
    expect(isAllowedSocketAddress("ws://rooms.example.com/v1/connect")).toBe(false);
    expect(isAllowedSocketAddress("wss://rooms.example.com/v1/connect")).toBe(true);
    expect(isAllowedHttpAddress("http://[::1]:5/")).toBe(true);
    expect(isAllowedHttpAddress("http://192.168.1.2/")).toBe(false);
    expect(isAllowedHttpAddress("https://mesh.example.com")).toBe(true);
  });

  it("are no way around the scheme", () => {
    expect(isAllowedSocketAddress("http://127.0.0.1")).toBe(false);
    expect(isAllowedSocketAddress("file:///etc/passwd")).toBe(false);
    expect(isAllowedHttpAddress("ws://127.0.0.1")).toBe(false);
    expect(isAllowedSocketAddress("not an address")).toBe(false);
  });
});
