/** What peers rely on, as literals. */
import { describe, expect, it } from "vitest";
import { deviceDeclarationSchema, deviceListSchema } from "./devices.ts";
import { meshRequestSchema } from "./http.ts";
import { deviceIdSchema } from "./identifiers.ts";
import { OUTCOMES, REASONS } from "./outcomes.ts";
import { askIdSchema } from "./ring.ts";
import {
  clientFrameSchema,
  mayResumeAfter,
  openRoomBodySchema,
  ROOM_CLOSE,
  serviceFrameSchema,
} from "./room-protocol.ts";
import { createOrderedId, fromBase64Url, randomId, toBase64Url, utf8Length } from "./runtime.ts";

describe("outcomes", () => {
  it("are these seven", () => {
    expect(OUTCOMES).toEqual([
      "done",
      "failed",
      "declined",
      "sent_for_approval",
      "not_joined",
      "unreachable",
      "refused",
    ]);
  });

  it("have reasons of their own, but for the two that say when they struck", () => {
    const all = Object.values(REASONS).flat();
    const shared = all.filter((reason, index) => all.indexOf(reason) !== index);
    expect(shared.sort()).toEqual(["cancelled", "mesh_restarted"]);
  });
});

describe("device ids", () => {
  it.each(["phone-7", "a", "A_b-c.d:e@f|g", "9".repeat(128)])("takes %s", (id) => {
    expect(deviceIdSchema.safeParse(id).success).toBe(true);
  });

  it.each(["", "9".repeat(129), "a b", "a/b", "a+b", "a#b", "é", "a\n", "\u0000", "a$b", "ａ"])("refuses %j", (id) => {
    expect(deviceIdSchema.safeParse(id).success).toBe(false);
  });
});

describe("devices of a request", () => {
  const device = { id: "phone-7", push_token: "..." };

  it("takes the shortest form and the longest", () => {
    expect(deviceDeclarationSchema.parse(device)).toEqual(device);
    const capabilities = [{ name: "battery.read", description: "Level.", inputs: { type: "object" }, effect: "read" }];
    const full = { ...device, name: "Ann's phone", platform: "android", capabilities };
    expect(deviceDeclarationSchema.parse(full)).toEqual(full);
  });

  it.each([
    ["no id", { push_token: "x" }],
    ["no push token", { id: "phone-7" }],
    ["an empty push token", { id: "phone-7", push_token: "" }],
    ["an unknown field", { ...device, approval: "silent" }],
    ["a name that is too long", { ...device, name: "n".repeat(121) }],
  ])("refuses %s", (_, value) => {
    expect(deviceDeclarationSchema.safeParse(value).success).toBe(false);
  });

  it("holds 16 and not 17", () => {
    const list = (length: number) => Array.from({ length }, (_, index) => ({ id: `d${index}`, push_token: "x" }));
    expect(deviceListSchema.safeParse(list(16)).success).toBe(true);
    expect(deviceListSchema.safeParse(list(17)).success).toBe(false);
  });

  it("takes the documented request", () => {
    const request = { message: "Is my battery OK?", device };
    expect(meshRequestSchema.parse(request)).toEqual(request);
    expect(meshRequestSchema.safeParse({ ...request, role: "system" }).success).toBe(false);
  });
});

describe("room frames", () => {
  it("refuses frames of the wrong direction", () => {
    expect(clientFrameSchema.safeParse({ type: "peer", seq: 1, state: "joined" }).success).toBe(false);
    expect(serviceFrameSchema.safeParse({ type: "hello", v: 1, token: "t" }).success).toBe(false);
  });

  it.each([0, -1, 1.5, "1", undefined])("refuses %s as a sequence number", (seq) => {
    expect(clientFrameSchema.safeParse({ type: "accepted", seq, id: "ask_1" }).success).toBe(false);
  });

  it("ignores fields that it does not know", () => {
    expect(clientFrameSchema.safeParse({ type: "ack", seq: 3, later: true }).success).toBe(true);
  });

  it("fills in the defaults of a room", () => {
    expect(openRoomBodySchema.parse({})).toEqual({ ttl_s: 120, join_within_s: 60, purpose: "task" });
  });

  it("says after which close a client comes back", () => {
    const back = Object.entries(ROOM_CLOSE)
      .filter(([, code]) => mayResumeAfter(code))
      .map(([name]) => name);
    expect(back).toEqual(["goingAway", "internal", "shuttingDown", "tooSlow", "rate"]);
    expect([1005, 1006, 1011, 1012, 1013].every(mayResumeAfter)).toBe(true);
  });
});

describe("ids and bytes", () => {
  it("makes ids that fit a collapse key", () => {
    const ids = Array.from({ length: 1000 }, () => randomId("ask"));
    expect(ids.every((id) => /^ask_[A-Za-z0-9_-]{22}$/.test(id))).toBe(true);
    expect(new Set(ids).size).toBe(1000);
  });

  it("makes ids for the store that sort by time and fit a collapse key", () => {
    let nowMs = Date.UTC(2026, 0, 1);
    const newId = createOrderedId({ nowMs: () => nowMs });
    const ids = Array.from({ length: 1000 }, () => {
      nowMs += 64;
      return newId("ask");
    });
    expect(ids.every((id) => askIdSchema.safeParse(id).success)).toBe(true);
    expect(ids.toSorted()).toEqual(ids);
    expect(ids.every((id) => /^ask_[A-Za-z0-9_-]{28}$/.test(id))).toBe(true);

    const atOnce = Array.from({ length: 1000 }, () => newId("ask"));
    expect(new Set(atOnce).size).toBe(1000);
    expect(new Set(atOnce.map((id) => id.slice(0, 10))).size).toBe(1);
  });

  it("round-trips base64 and refuses what is not", () => {
    const bytes = crypto.getRandomValues(new Uint8Array(257));
    expect(fromBase64Url(toBase64Url(bytes))).toEqual(bytes);
    expect(() => fromBase64Url("***")).toThrow(TypeError);
  });

  it("counts bytes, not characters", () => {
    expect(utf8Length("é€😀")).toBe(9);
  });
});
