import { expect, it } from "vitest";
import { isLoopbackHost } from "./loopback.ts";

it.each(["localhost", "LOCALHOST", "127.0.0.1", "127.255.0.9", "::1", "[::1]"])("%s is this machine", (host) => {
  expect(isLoopbackHost(host)).toBe(true);
});

it.each(["127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "::2", ""])(
  "%s is another, or may be",
  (host) => expect(isLoopbackHost(host)).toBe(false),
);
