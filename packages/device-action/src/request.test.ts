import type { ConversationDevice, DeviceBlock } from "@leafmesh/core";
import { type Capability, Secret } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import { readRequest } from "./request.ts";

const BLOCK: DeviceBlock = {
  connection: "phones",
  approval: "ask",
  joinTimeoutMs: 60_000,
  replyTimeoutMs: 60_000,
};

function device(id: string, capabilities?: readonly Capability[]): ConversationDevice {
  return { id, pushToken: new Secret("t"), ...(capabilities ? { capabilities } : {}) };
}

const PHONE = device("phone-7");
const read = (given: Record<string, unknown>, devices = [PHONE], block: Partial<DeviceBlock> = {}) =>
  readRequest(given, devices, { ...BLOCK, ...block });

describe("which device", () => {
  it("is the only one when none is named", async () => {
    expect(await read({ action: "read_battery" })).toEqual({ device: PHONE, action: "read_battery", inputs: {} });
    expect(await read({ action: "read_battery", device: null })).toMatchObject({ device: PHONE });
  });

  it("is the one that is named", async () => {
    const tablet = device("tablet-2");
    expect(await read({ action: "a", device: "tablet-2" }, [PHONE, tablet])).toMatchObject({ device: tablet });
  });

  it("is refused when there are several and none is named, with their ids", async () => {
    expect(await read({ action: "a" }, [PHONE, device("tablet-2")])).toEqual({
      reason: "no_such_device",
      detail: 'This conversation has several devices: name one of ["phone-7","tablet-2"].',
    });
  });

  it.each(["phone-8", "", "__proto__", "constructor", "x".repeat(129), 7, ["phone-7"]])(
    "is refused when it is not of this conversation: %j",
    async (id) => {
      expect(await read({ action: "a", device: id })).toEqual({
        reason: "no_such_device",
        detail: 'This conversation has no such device: name one of ["phone-7"].',
      });
    },
  );

  it("is refused when there is none", async () => {
    expect(await read({ action: "a" }, [])).toMatchObject({ reason: "no_such_device" });
  });
});

describe("which action", () => {
  it.each([undefined, "", 5, " read", "read\n", "re\u0000ad", "a\u202eb", "x".repeat(201)])(
    "is refused: %j",
    async (action) => {
      expect(await read({ action })).toMatchObject({ reason: "no_action", device: "phone-7" });
    },
  );

  it("may have any printable name on a device that declares nothing", async () => {
    expect(await read({ action: "Akkustand lesen / 電池" })).toMatchObject({ action: "Akkustand lesen / 電池" });
  });

  it("must be one that the device declared, if it declared any", async () => {
    const phone = device("phone-7", [{ name: "read_battery" }, { name: "take_photo" }]);
    expect(await read({ action: "take_photo" }, [phone])).toMatchObject({ action: "take_photo" });
    expect(await read({ action: "wipe" }, [phone])).toEqual({
      reason: "unknown_action",
      detail: 'The device does not offer the action "wipe"; it offers ["read_battery","take_photo"].',
      device: "phone-7",
    });
    expect(await read({ action: "wipe" }, [device("phone-7", [])])).toMatchObject({ reason: "unknown_action" });
  });

  it.each<[string, readonly string[] | undefined, readonly string[] | undefined, boolean]>([
    ["read_battery", undefined, undefined, true],
    ["read_battery", ["read_*"], undefined, true],
    ["send_sms", ["read_*"], undefined, false],
    ["send_sms", undefined, ["send_*"], false],
    ["read_sms", ["read_*"], ["*_sms"], false],
    ["files/delete", undefined, ["files*"], false],
    ["../x", undefined, ["*"], false],
    [".hidden", undefined, ["*"], false],
    ["Send_sms", undefined, ["send_*"], true],
    ["a", [], undefined, false],
    ["get", ["?et"], undefined, true],
  ])("is allowed or denied: %s allow %j deny %j", async (action, allow, deny, isAllowed) => {
    const request = await read({ action }, [PHONE], { allow, deny });
    if (isAllowed) expect(request).toMatchObject({ action });
    else expect(request).toMatchObject({ reason: "action_denied" });
  });

  it("is denied before the device's declaration is looked at", async () => {
    const phone = device("phone-7", [{ name: "read_battery" }]);
    expect(await read({ action: "wipe" }, [phone], { deny: ["wipe"] })).toMatchObject({ reason: "action_denied" });
  });
});

describe("which inputs", () => {
  it.each([
    ["a string", "{}"],
    ["a list", []],
    ["null", null],
    ["a number", 3],
  ])("refuses %s", async (_name, inputs) => {
    expect(await read({ action: "a", inputs })).toMatchObject({ reason: "bad_inputs" });
  });

  it("refuses what was put beside them instead of into them", async () => {
    expect(await read({ action: "set_volume", level: 3 })).toEqual({
      reason: "bad_inputs",
      detail: 'device_action has no parameter "level": what the action needs goes into "inputs".',
      device: "phone-7",
    });
    expect(await read({ action: "a", approval: "silent" })).toMatchObject({ reason: "bad_inputs" });
  });

  it("holds them against the declared schema", async () => {
    const inputs = { type: "object", properties: { level: { type: "integer" } }, required: ["level"] };
    const phone = device("phone-7", [{ name: "set_volume", inputs }]);
    expect(await read({ action: "set_volume", inputs: { level: 3 } }, [phone])).toMatchObject({ inputs: { level: 3 } });
    const refused = await read({ action: "set_volume", inputs: { level: "loud" } }, [phone]);
    expect(refused).toMatchObject({ reason: "bad_inputs", detail: expect.stringContaining("#/level") });
  });

  it("keeps a reason for the record and does not send it", async () => {
    expect(await read({ action: "a", reason: "the customer asked" })).not.toHaveProperty("detail");
  });
});
