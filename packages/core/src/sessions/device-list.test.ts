import { Secret } from "@leafmesh/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EngineError } from "../runs/engine-error.ts";
import { createSealer, SECRET_KEY_BYTES } from "../security/sealer.ts";
import type { DeviceRecord } from "../storage/contract.ts";
import { knownDevice, mergeDevices, pushTokenContext } from "./device-list.ts";

const sealer = createSealer(new Uint8Array(SECRET_KEY_BYTES));
/** A record with its token opened, so that records can be compared. */
const opened = (device: DeviceRecord) => ({
  ...device,
  sealedPushToken: sealer.open(device.sealedPushToken, pushTokenContext(device.sessionId, device.id)),
});
const given = (id: string, token: string) => ({ id, pushToken: new Secret(token) });
const record = (id: string, token: string): DeviceRecord => ({
  sessionId: "ses_1",
  id,
  sealedPushToken: sealer.seal(token, pushTokenContext("ses_1", id)),
});

describe("mergeDevices", () => {
  it("replaces a known device in its place, adds a new one at the end, and clears on an empty list", () => {
    const stored = [record("a", "1"), record("b", "1")];
    const merged = mergeDevices(stored, [given("c", "2"), { ...given("a", "2"), name: "A" }], "ses_1", sealer);
    const plain = { sessionId: "ses_1" };
    expect(merged.map(opened)).toEqual([
      { ...plain, id: "a", sealedPushToken: "2", name: "A" },
      { ...plain, id: "b", sealedPushToken: "1" },
      { ...plain, id: "c", sealedPushToken: "2" },
    ]);
    expect(mergeDevices(stored, [], "ses_1", sealer)).toEqual([]);
  });

  it("takes the whole of what a repeated id brings: details that are left out are gone", () => {
    const stored = [{ ...record("a", "1"), name: "Old", platform: "ios", capabilities: [{ name: "photo" }] }];
    const [merged] = mergeDevices(stored, [given("a", "2")], "ses_1", sealer);
    expect(merged && knownDevice(merged)).toEqual({ id: "a" });
  });

  it("seals each token for its session and device", () => {
    const [device] = mergeDevices([], [given("a", "t")], "ses_9", sealer);
    const sealed = device?.sealedPushToken ?? "";
    expect(sealer.open(sealed, "push_token:ses_9:a")).toBe("t");
    expect(() => sealer.open(sealed, "push_token:ses_9:b")).toThrow();
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
