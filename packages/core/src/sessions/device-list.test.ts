import { Secret } from "@leafmesh/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EngineError } from "../runs/engine-error.ts";
import type { DeviceRecord } from "../storage/contract.ts";
import { knownDevice, mergeDevices, type Sealer } from "./device-list.ts";

const sealer: Sealer = { seal: (text, context) => `${context}=${text}`, open: (sealed) => sealed };
const given = (id: string, token: string) => ({ id, pushToken: new Secret(token) });
const record = (id: string, token: string): DeviceRecord => ({
  sessionId: "ses_1",
  id,
  sealedPushToken: `push_token:ses_1:${id}=${token}`,
});

describe("mergeDevices", () => {
  it("replaces a known device in its place, adds a new one at the end, and clears on an empty list", () => {
    const stored = [record("a", "1"), record("b", "1")];
    const merged = mergeDevices(stored, [given("c", "2"), { ...given("a", "2"), name: "A" }], "ses_1", sealer);
    expect(merged).toEqual([{ ...record("a", "2"), name: "A" }, record("b", "1"), record("c", "2")]);
    expect(mergeDevices(stored, [], "ses_1", sealer)).toEqual([]);
  });

  it("takes the whole of what a repeated id brings: details that are left out are gone", () => {
    const stored = [{ ...record("a", "1"), name: "Old", platform: "ios", capabilities: [{ name: "photo" }] }];
    expect(mergeDevices(stored, [given("a", "2")], "ses_1", sealer)).toEqual([record("a", "2")]);
  });

  it("seals each token for its session and device", () => {
    const [device] = mergeDevices([], [given("a", "t")], "ses_9", sealer);
    expect(device?.sealedPushToken).toBe("push_token:ses_9:a=t");
  });

  it("never gives more than 16 devices or one id twice", () => {
    const ids = fc.array(fc.integer({ min: 0, max: 24 }).map(String), { maxLength: 20 });
    fc.assert(
      fc.property(fc.array(ids, { maxLength: 6 }), (requests) => {
        let list: readonly DeviceRecord[] = [];
        for (const request of requests) {
          const before = list;
          try {
            list = mergeDevices(
              before,
              request.map((id) => given(id, "t")),
              "ses_1",
              sealer,
            );
          } catch (error) {
            const twice = new Set(request).size < request.length;
            const union = new Set([...before.map(({ id }) => id), ...request]).size;
            expect(error).toBeInstanceOf(EngineError);
            expect(error).toMatchObject({ code: twice ? "duplicate_device" : "too_many_devices" });
            expect(twice || union > 16).toBe(true);
          }
          expect(list.length).toBeLessThanOrEqual(16);
          expect(new Set(list.map(({ id }) => id)).size).toBe(list.length);
        }
      }),
    );
  });
});

describe("knownDevice", () => {
  it("is a device without its token", () => {
    const full = { ...record("a", "t"), name: "A", platform: "web", capabilities: [{ name: "photo" }] };
    expect(knownDevice(full)).toEqual({ id: "a", name: "A", platform: "web", capabilities: [{ name: "photo" }] });
    expect(knownDevice(record("a", "t"))).toEqual({ id: "a" });
  });
});
