import { describe, expect, it } from "vitest";
import { parseAnswer } from "./answer-body.ts";
import { MAX_IMAGE_BYTES } from "./images.ts";

const JPEG = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 1, 2, 3]).toString("base64");
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 9]).toString("base64");
const head = { call_token: "t", status: "ok" };

function good(body: unknown) {
  const parsed = parseAnswer(body);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed;
}
const refusal = (body: unknown) => {
  const parsed = parseAnswer(body);
  return parsed.ok ? undefined : parsed.message;
};

describe("a result body", () => {
  it.each([
    ["nothing", undefined],
    ["not an object", [1]],
    ["no token", { status: "ok" }],
    ["an empty token", { call_token: "", status: "ok" }],
    ["a token that is no text", { call_token: 5, status: "ok" }],
    ["no status", { call_token: "t" }],
    ["another status", { call_token: "t", status: "done" }],
    ["an error without error", { call_token: "t", status: "error" }],
    ["an error that is no object", { call_token: "t", status: "error", error: "no" }],
    ["an error that is null", { call_token: "t", status: "error", error: null }],
    ["an error with both fields blank", { call_token: "t", status: "error", error: { code: " ", message: "" } }],
    ["an error with a code that is no text", { call_token: "t", status: "error", error: { code: 5, message: "m" } }],
  ])("with %s is malformed", (_, body) => {
    expect(refusal(body)).toEqual(expect.any(String));
  });

  it("may have keys that nobody knows", () => {
    expect(good({ ...head, result: 1, device: "x", error: "ignored" }).outcome).toEqual({ status: "ok", result: 1 });
  });

  it("may hold any JSON as result", () => {
    for (const result of [null, 0, "", [], {}, { a: [1] }, false]) {
      expect(good({ ...head, result }).outcome).toEqual({ status: "ok", result });
    }
  });

  it("has the same digest whatever the order of its keys, and another for another result", () => {
    const one = good({ ...head, result: { a: 1, b: { c: 2, d: 3 } } }).digest;
    expect(good({ result: { b: { d: 3, c: 2 }, a: 1 }, ...head, call_token: "other" }).digest).toBe(one);
    expect(good({ ...head, result: { a: 1, b: { c: 2, d: 4 } } }).digest).not.toBe(one);
    expect(good({ call_token: "t", status: "error", error: { code: "a" } }).digest).not.toBe(one);
  });

  it("of more than 1 MiB beside its image is refused, naming the limit", () => {
    expect(good({ ...head, result: "x".repeat(1_048_574) }).ok).toBe(true);
    expect(refusal({ ...head, result: "x".repeat(1_048_575) })).toContain("1048576 bytes");
    expect(refusal({ ...head, result: "ä".repeat(600_000) })).toContain("1048576 bytes");
  });
});

describe("an image in a result", () => {
  it("is lifted out, jpeg unless its content says otherwise, and the rest stays", () => {
    const { outcome } = good({ ...head, result: { image_base64: JPEG, screen_width: 1440 } });
    expect(outcome).toMatchObject({ result: { screen_width: 1440 }, image: { mediaType: "image/jpeg" } });
    expect(good({ ...head, result: { image_base64: PNG, image_media_type: "image/png" } }).outcome).toMatchObject({
      result: {},
      image: { mediaType: "image/png" },
    });
    expect(good({ ...head, result: { image_base64: PNG } }).outcome).toMatchObject({
      image: { mediaType: "image/png" },
    });
  });

  it("is one only at the top level of an object, and only when it is not empty", () => {
    for (const result of [
      { image_base64: "" },
      { image_base64: 5 },
      { deep: { image_base64: JPEG } },
      [{ image_base64: JPEG }],
    ]) {
      expect(good({ ...head, result }).outcome).toEqual({ status: "ok", result });
    }
  });

  it("is refused when it is not base64, of another type, no image at all, or too large", () => {
    const refused = (result: object) => refusal({ ...head, result });
    expect(refused({ image_base64: "not base64!" })).toContain("not base64");
    expect(refused({ image_base64: JPEG, image_media_type: "image/svg+xml" })).toContain("image/jpeg, image/png");
    expect(refused({ image_base64: Buffer.from("hello").toString("base64") })).toContain("not a JPEG");
    const large = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), Buffer.alloc(MAX_IMAGE_BYTES)]).toString("base64");
    expect(refused({ image_base64: large })).toContain(`${MAX_IMAGE_BYTES} bytes`);
  });

  it("does not come with an error: only code and message count there", () => {
    const { outcome } = good({
      call_token: "t",
      status: "error",
      result: { image_base64: JPEG },
      error: { code: "c", message: "m", image_base64: JPEG },
    });
    expect(outcome).toEqual({ status: "error", error: { code: "c", message: "m" } });
  });
});
