import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readVendorError } from "./vendor-error.ts";

describe("readVendorError", () => {
  it.each<[string, string, object]>([
    [
      "OpenAI",
      '{"error":{"message":"Wrong.","type":"invalid_request_error","param":"tools","code":"empty_array"}}',
      { message: "Wrong.", code: "empty_array", param: "tools" },
    ],
    [
      "OpenAI without a code",
      '{"error":{"message":"Wrong.","type":"server_error","code":null}}',
      { code: "server_error" },
    ],
    ["llama.cpp", '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', { status: 503 }],
    [
      "Ollama",
      '{"error":"model \\"x\\" not found, try pulling it first"}',
      { message: expect.stringMatching(/pulling/) },
    ],
    [
      "vLLM",
      '{"object":"error","message":"Too long","type":"BadRequestError","code":400}',
      { message: "Too long", status: 400 },
    ],
    [
      "FastAPI",
      '{"detail":[{"loc":["body","messages",0],"msg":"field required","type":"missing"},{"msg":"and more"}]}',
      { message: "body messages 0 field required; and more" },
    ],
    ["FastAPI as text", '{"detail":"Not authenticated"}', { message: "Not authenticated" }],
    ["plain text", "upstream connect error", { message: "upstream connect error" }],
    ["JSON that is no object", '"busy"', { message: '"busy"' }],
  ])("reads %s", (_who, body, expected) => {
    expect(readVendorError(body)).toMatchObject(expected);
  });

  it.each(["", "  ", "<html><h1>502</h1></html>", "\n<?xml version='1.0'?>", "{}", '{"error":null}', '{"error":""}'])(
    "has nothing to quote from %j",
    (body) => {
      expect(readVendorError(body).message).toBeUndefined();
    },
  );

  it("reads anything at all", () => {
    const deep: unknown = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
    const odd = fc.oneof(fc.jsonValue(), fc.constant(deep));
    const error = fc.record(
      {
        message: odd,
        code: odd,
        status: odd,
        type: odd,
        param: odd,
        detail: fc.oneof(odd, fc.array(fc.record({ loc: odd, msg: odd }))),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(error, fc.record({ error: fc.oneof(error, odd) }), odd, fc.string()), (body) => {
        for (const value of Object.values(readVendorError(body))) {
          expect(["string", "number", "undefined"]).toContain(typeof value);
        }
      }),
    );
  });
});
