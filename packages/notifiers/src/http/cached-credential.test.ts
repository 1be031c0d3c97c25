import { createFakeClock } from "@leafmesh/testkit";
import { describe, expect, it } from "vitest";
import { RingError } from "../contract.ts";
import { createCachedCredential, type MintedCredential } from "./cached-credential.ts";

const HOUR_MS = 3_600_000;
const never = new AbortController().signal;

/** Makes t1, t2 and so on; `answer` may do something else instead. */
function minting(
  answer: (nth: number, signal: AbortSignal) => Promise<MintedCredential<string>> | undefined = () => undefined,
) {
  const clock = createFakeClock();
  let minted = 0;
  const credential = createCachedCredential<string>({
    clock,
    renewBeforeMs: 300_000,
    async mint(signal) {
      const nth = ++minted;
      return answer(nth, signal) ?? { value: `t${nth}`, lifetimeMs: HOUR_MS };
    },
  });
  return { clock, credential, minted: () => minted };
}

const down = (): Promise<never> => Promise.reject(new RingError("transient", "down"));

describe("a credential", () => {
  it("is made once for all who wait, and used until shortly before its end", async () => {
    const { clock, credential, minted } = minting();
    const values = await Promise.all(Array.from({ length: 20 }, () => credential.get(never)));
    expect(new Set(values)).toEqual(new Set(["t1"]));
    await clock.advance(HOUR_MS - 300_001);
    expect(await credential.get(never)).toBe("t1");
    await clock.advance(1);
    expect(await Promise.all([credential.get(never), credential.get(never)])).toEqual(["t2", "t2"]);
    expect(minted()).toBe(2);
    expect(clock.pendingTimers).toBe(0);
  });

  it("that lives shorter than the margin is still used for half its life", async () => {
    const { clock, credential, minted } = minting(async (nth) => ({ value: `t${nth}`, lifetimeMs: 60_000 }));
    await credential.get(never);
    await clock.advance(29_999);
    await credential.get(never);
    expect(minted()).toBe(1);
    await clock.advance(1);
    await credential.get(never);
    expect(minted()).toBe(2);
  });

  it("lives on by the clock that cannot be set back", async () => {
    const { clock, credential } = minting();
    await credential.get(never);
    clock.setWallClock(clock.nowMs() - 10 * HOUR_MS);
    await clock.advance(HOUR_MS);
    expect(await credential.get(never)).toBe("t2");
  });

  it("is still used when its renewal fails, and no longer than it lives", async () => {
    const { clock, credential, minted } = minting((nth) => (nth > 1 ? down() : undefined));
    await credential.get(never);
    await clock.advance(HOUR_MS - 1_000);
    expect(await credential.get(never)).toBe("t1");
    expect(minted()).toBe(2);
    await clock.advance(1_000);
    await expect(credential.get(never)).rejects.toMatchObject({ kind: "transient", message: "down" });
  });

  it("that could not be made is asked for again by the next", async () => {
    const { credential } = minting((nth) => (nth === 1 ? down() : undefined));
    await expect(Promise.all([credential.get(never), credential.get(never)])).rejects.toMatchObject({
      message: "down",
    });
    expect(await credential.get(never)).toBe("t2");
  });

  const refused = new RingError("bad_credential", "refused", { code: "401" });
  const isRefused = ({ code }: RingError): boolean => code === "401";

  it("that was refused is replaced once, however many were refused with it", async () => {
    const { credential, minted } = minting();
    const used: string[] = [];
    const work = async (value: string): Promise<string> => {
      used.push(value);
      if (value === "t1") throw refused;
      return `with ${value}`;
    };
    const both = [1, 2].map(() => credential.use(never, work, isRefused));
    expect(await Promise.all(both)).toEqual(["with t2", "with t2"]);
    expect(used.sort()).toEqual(["t1", "t1", "t2", "t2"]);
    expect(await credential.use(never, work, isRefused)).toBe("with t2");
    expect(minted()).toBe(2);
  });

  it("that is refused again is given up, and what says nothing of it is not tried again", async () => {
    const { credential, minted } = minting();
    let worked = 0;
    const failing = (error: Error) => async (): Promise<never> => {
      worked++;
      throw error;
    };
    await expect(credential.use(never, failing(refused), isRefused)).rejects.toBe(refused);
    expect([worked, minted()]).toEqual([2, 2]);
    for (const other of [new RingError("transient", "down"), new Error("a bug")]) {
      worked = 0;
      await expect(credential.use(never, failing(other), isRefused)).rejects.toBe(other);
      expect(worked).toBe(1);
    }
  });

  it("is replaced only where the one that was refused may be", async () => {
    const { credential, minted } = minting();
    const work = async (): Promise<never> => {
      throw refused;
    };
    await expect(credential.use(never, work, (_error, value) => value !== "t1")).rejects.toBe(refused);
    expect(minted()).toBe(1);
  });

  it("is waited for by others when one gives up", async () => {
    const { promise, resolve } = Promise.withResolvers<MintedCredential<string>>();
    const { credential } = minting(() => promise);
    const stop = new AbortController();
    const [one, other] = [credential.get(stop.signal), credential.get(never)];
    stop.abort();
    await expect(one).rejects.toMatchObject({ code: "aborted" });
    resolve({ value: "late", lifetimeMs: HOUR_MS });
    expect(await other).toBe("late");
  });

  it("that is never made ends the wait, and its maker is told", async () => {
    let told = false;
    const { clock, credential } = minting((_nth, signal) => {
      signal.addEventListener("abort", () => {
        told = true;
      });
      return new Promise(() => {});
    });
    const failing = expect(credential.get(never)).rejects.toMatchObject({ kind: "transient", code: "timeout" });
    await clock.advance(8_000);
    await failing;
    expect(told).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });
});
