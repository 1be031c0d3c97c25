import { format, inspect } from "node:util";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { Secret, secretString } from "./secret.ts";

const value = "s3cr3t-value";

describe("Secret", () => {
  const secret = new Secret(value);

  it.each([
    ["String()", () => String(secret)],
    ["a template literal", () => `${secret}`],
    ["concatenation", () => `token: ${secret}`],
    ["JSON.stringify", () => JSON.stringify({ nested: [secret] })],
    ["inspect", () => inspect({ secret }, { depth: 9, showHidden: true })],
    ["format", () => format("%s %o %j", secret, secret, secret)],
    ["an error's cause", () => inspect(new Error("failed", { cause: { secret } }))],
    ["its own keys", () => JSON.stringify(Object.entries(secret))],
  ])("does not print through %s", (_, print) => {
    expect(print()).not.toContain(value);
  });

  it("gives its value to the one who asks for it by name", () => {
    expect(secret.reveal()).toBe(value);
  });
});

describe("secretString", () => {
  const schema = z.strictObject({ api_key: secretString("The key.") });

  it("wraps what it parses", () => {
    expect(schema.parse({ api_key: value }).api_key.reveal()).toBe(value);
  });

  it("refuses an empty value without quoting anything", () => {
    expect(schema.safeParse({ api_key: "" }).error?.issues[0]?.message).toBe("must not be empty");
  });

  it("is marked in the JSON Schema that forms and docs are made from", () => {
    const json = z.toJSONSchema(schema, { io: "input" });
    expect(json.properties?.api_key).toMatchObject({ type: "string", secret: true, description: "The key." });
  });
});
