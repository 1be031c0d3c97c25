import { expect, it } from "vitest";
import { MAX_RETRY_AFTER_MS, readRetryAfter } from "./retry-after.ts";

const nowMs = Date.parse("2026-03-01T12:00:00Z");

it.each([
  [{ "retry-after": "30" }, 30_000],
  [{ "retry-after": " 30 " }, 30_000],
  [{ "retry-after": "0" }, 0],
  [{ "retry-after": "0.25" }, 250],
  [{ "retry-after": "Sun, 01 Mar 2026 12:00:07 GMT" }, 7000],
  [{ "retry-after": "Sun, 01 Mar 2026 11:59:00 GMT" }, 0],
  [{ "retry-after": "Sun, 01 Mar 2126 12:00:00 GMT" }, MAX_RETRY_AFTER_MS],
  [{ "retry-after": "1000000000" }, MAX_RETRY_AFTER_MS],
  [{ "retry-after": "9".repeat(400) }, undefined],
  [{ "retry-after": "-1" }, undefined],
  [{ "retry-after": "1e9" }, undefined],
  [{ "retry-after": "Infinity" }, undefined],
  [{ "retry-after": "2026-03-01" }, undefined],
  [{ "retry-after": "Someday, perhaps" }, undefined],
  [{ "retry-after": "" }, undefined],
  [{ "retry-after-ms": "40" }, 40],
  [{ "retry-after-ms": "40.4", "retry-after": "7" }, 40],
  [{ "retry-after-ms": "x", "retry-after": "7" }, 7000],
  [{}, undefined],
])("%j is %s ms", (headers, waitMs) => {
  expect(readRetryAfter(headers, nowMs)).toBe(waitMs);
});
