import { describe, expect, it } from "vitest";
import { connectUrlIssue, serviceUrlIssue } from "./addresses.ts";

describe("serviceUrlIssue", () => {
  it.each([
    "https://rooms.example.com",
    "https://rooms.example.com:8443/base/",
    "https://10.0.0.5",
    "https://[fd12::1]",
    "http://localhost:7000",
    "http://127.0.0.1:7000",
    "http://[::1]:7000",
    "http://2130706433",
  ])("lets %s pass", (url) => {
    expect(serviceUrlIssue(url)).toBeUndefined();
  });

  it.each([
    ["rooms.example.com", "must be an address"],
    ["ftp://rooms.example.com", "must start with https://"],
    ["http://rooms.example.com", "must start with https://"],
    ["http://10.0.0.5", "must start with https://"],
    ["https://user:secret@rooms.example.com", "user name or password"],
    ["https://rooms.example.com?key=1", "query"],
    ["https://rooms.example.com#top", "fragment"],
    ["https://169.254.169.254", "link-local"],
    ["https://0xa9fea9fe", "link-local"],
    ["https://[::ffff:169.254.169.254]", "link-local"],
    ["https://[64:ff9b::a9fe:a9fe]", "link-local"],
    ["https://[fe80::1]", "link-local"],
    ["https://[fd00:ec2::254]", "metadata"],
    ["https://100.100.100.200", "metadata"],
    ["https://0.0.0.0", "link-local"],
  ])("does not let %s pass", (url, issue) => {
    expect(serviceUrlIssue(url)).toContain(issue);
  });
});

describe("connectUrlIssue", () => {
  const service = "https://rooms.example.com";

  it.each([
    ["wss://edge.example.com/v1/connect", service],
    ["wss://10.0.0.5/v1/connect", service],
    ["ws://127.0.0.1:1/v1/connect", "http://localhost:1"],
    ["wss://localhost/v1/connect", "http://127.0.0.1"],
  ])("lets %s of %s pass", (url, from) => {
    expect(connectUrlIssue(url, from)).toBeUndefined();
  });

  it.each([
    ["ws://edge.example.com/v1/connect", "must start with wss://"],
    ["https://edge.example.com/v1/connect", "must start with wss://"],
    ["wss://localhost/v1/connect", "the mesh's own machine"],
    ["wss://127.0.0.1/v1/connect", "the mesh's own machine"],
    ["wss://169.254.169.254/v1/connect", "link-local"],
    ["wss://user@edge.example.com/", "user name"],
    ["nonsense", "must be an address"],
  ])("does not let %s pass", (url, issue) => {
    expect(connectUrlIssue(url, service)).toContain(issue);
  });
});
