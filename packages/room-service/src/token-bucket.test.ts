import { describe, expect, it } from "vitest";
import { TokenBucket, TokenBuckets } from "./token-bucket.ts";

const limits = { burst: 3, perSecond: 2 };

describe("TokenBucket", () => {
  it("takes a burst, then as many as come back, and says when the next will be there", () => {
    const bucket = new TokenBucket(limits, 0);
    for (let taken = 0; taken < 3; taken++) expect(bucket.take(0)).toEqual({ taken: true });
    expect(bucket.take(0)).toEqual({ taken: false, retryAfterMs: 500 });
    expect(bucket.take(400)).toEqual({ taken: false, retryAfterMs: 100 });
    expect(bucket.take(500)).toEqual({ taken: true });
    expect(bucket.take(500)).toMatchObject({ taken: false });
  });

  it("never saves more than its burst, except what it is paid back", () => {
    const bucket = new TokenBucket(limits, 0);
    let taken = 0;
    while (bucket.take(1_000_000).taken) taken++;
    expect(taken).toBe(3);
    bucket.credit(5000);
    while (bucket.take(1_000_000).taken) taken++;
    expect(taken).toBe(13);
    expect(bucket.isFull(1_000_000)).toBe(false);
    expect(bucket.isFull(1_001_500)).toBe(true);
  });
});

describe("TokenBuckets", () => {
  it("keeps names apart and stays within its bound", () => {
    const buckets = new TokenBuckets({ burst: 1, perSecond: 0.001 }, 20);
    expect(buckets.take("a", 0)).toEqual({ taken: true });
    expect(buckets.take("b", 0)).toEqual({ taken: true });
    expect(buckets.take("a", 0)).toMatchObject({ taken: false });
    for (let name = 0; name < 1000; name++) buckets.take(`address ${name}`, 0);
    expect(buckets.size).toBeLessThanOrEqual(20);
  });

  it("forgets first whoever has been quiet", () => {
    const buckets = new TokenBuckets({ burst: 2, perSecond: 1 }, 3);
    buckets.take("quiet", 0);
    for (let taken = 0; taken < 2; taken++) buckets.take("busy", 10_000);
    buckets.take("other", 10_000);
    buckets.take("newcomer", 10_000);
    expect(buckets.take("busy", 10_000)).toMatchObject({ taken: false });
  });
});
