import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { type AppleKey, judgeProviderToken } from "./apple-provider-token.ts";

const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
const key: AppleKey = {
  keyId: "KEY1234567",
  teamId: "TEAM123456",
  publicKey: pair.publicKey.export({ format: "pem", type: "spki" }).toString(),
  environments: ["production"],
};
const NOW_SECONDS = 1_800_000_000;

const judge = (authorization: string | undefined, environment: "production" | "sandbox" = "production") =>
  judgeProviderToken(authorization, [key], environment, NOW_SECONDS * 1000);
const signed = async (ageSeconds: number) => {
  const jwt = new SignJWT({ iss: key.teamId, iat: NOW_SECONDS - ageSeconds });
  return `bearer ${await jwt.setProtectedHeader({ alg: "ES256", kid: key.keyId }).sign(pair.privateKey)}`;
};

describe("a provider token", () => {
  it("is good for an hour, and not before its time", async () => {
    expect(judge(await signed(0))).toEqual({ key });
    expect(judge(await signed(3600))).toEqual({ key });
    expect(judge(await signed(3601))).toEqual({ refusal: "ExpiredProviderToken" });
    expect(judge(await signed(-61))).toEqual({ refusal: "InvalidProviderToken" });
  });

  it("is good where its key is", async () => {
    expect(judge(await signed(0), "sandbox")).toEqual({ refusal: "BadEnvironmentKeyIdInToken" });
  });

  it("is one whole JWT that nobody has changed", async () => {
    const good = await signed(0);
    const [head, body, signature] = good.split(".");
    const none = Buffer.from(JSON.stringify({ alg: "none", kid: key.keyId })).toString("base64url");
    for (const bad of [
      `${head}.${body}.`,
      `${good}.x`,
      `${head}.${body}x.${signature}`,
      `bearer ${none}.${body}.`,
      "bearer",
      "",
    ]) {
      expect(judge(bad), bad.slice(0, 20)).toEqual({ refusal: "InvalidProviderToken" });
    }
    expect(judge(undefined)).toEqual({ refusal: "MissingProviderToken" });
  });
});
