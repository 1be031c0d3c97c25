import { describe, expect, it } from "vitest";
import { judgeListedUrl } from "./listed-hosts.ts";

const hosts = ["notify.windows.com", "fcm.googleapis.com"];

describe("an address that a device gave", () => {
  it.each([
    "https://notify.windows.com/?token=t",
    "https://db5.notify.windows.com/?token=t",
    "https://DB5.Notify.Windows.com:443/",
    "https://fcm.googleapis.com/fcm/send/abc",
  ])("may be %s", (url) => expect(judgeListedUrl(url, hosts)).toBeUndefined());

  it.each([
    ["http://db5.notify.windows.com/", "not_https"],
    ["https://evil-notify.windows.com/", "not_listed"],
    ["https://notify.windows.com.evil.example/", "not_listed"],
    ["https://notify.windows.com./", "not_listed"],
    ["https://notify.windows.com:8443/", "not_listed"],
    ["https://windows.com/", "not_listed"],
    ["https://evil.example/#.notify.windows.com", "not_listed"],
    ["https://evil.example\\.notify.windows.com/", "not_listed"],
    ["https://notify.windows.com@evil.example/", "bad_url"],
    ["https://user:pass@db5.notify.windows.com/", "bad_url"],
    ["https://127.0.0.1/", "not_public"],
    ["https://2130706433/", "not_public"],
    ["https://[::ffff:8.8.8.8]/", "not_public"],
    ["wss://db5.notify.windows.com/", "bad_url"],
    ["db5.notify.windows.com", "bad_url"],
    ["", "bad_url"],
  ])("may not be %s", (url, reason) => expect(judgeListedUrl(url, hosts)).toBe(reason));
});
