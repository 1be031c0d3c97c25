import { Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { jwtVerify, SignJWT, UnsecuredJWT } from "jose";
import { describe, expect, it } from "vitest";
import { createSeatTokens, type TokenKey } from "./tokens.ts";

const key = (kid: string, letter = kid): TokenKey => ({ kid, secret: new Secret(letter.repeat(32)) });
const claims = { room: "room_1", seat: "device", jti: "t_1" } as const;

/** A token like ours, with one thing changed. */
function forge(change: (jwt: SignJWT) => SignJWT, header: Record<string, string> = {}, secret = "a".repeat(32)) {
  const nowS = Math.floor(createFakeClock().nowMs() / 1000);
  const jwt = new SignJWT({ room: claims.room, seat: claims.seat })
    .setProtectedHeader({ alg: "HS256", typ: "lmr+jwt", kid: "a", ...header })
    .setIssuer("leafmesh")
    .setAudience("leafmesh-room/1")
    .setJti(claims.jti)
    .setIssuedAt(nowS)
    .setExpirationTime(nowS + 60);
  return change(jwt).sign(new TextEncoder().encode(secret));
}

describe("seat tokens", () => {
  it("are read back as what was signed, as short URL-safe text", async () => {
    const clock = createFakeClock();
    const tokens = createSeatTokens(clock);
    const token = await tokens.sign(claims, clock.nowMs() + 60_000);
    expect(token).toMatch(/^[A-Za-z0-9_.-]{1,512}$/);
    expect(JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString())).toEqual({
      alg: "HS256",
      typ: "lmr+jwt",
      kid: "0",
    });
    expect(await tokens.verify(token)).toEqual(claims);
  });

  it("are accepted from a foreign hand only when everything is right", async () => {
    const tokens = createSeatTokens(createFakeClock(), [key("a")]);
    expect(await tokens.verify(await forge((jwt) => jwt))).toEqual(claims);
    const refused = {
      "another key": await forge((jwt) => jwt, {}, "b".repeat(32)),
      "another kid": await forge((jwt) => jwt, { kid: "b" }),
      "another algorithm": await forge((jwt) => jwt, { alg: "HS512" }),
      "another type": await forge((jwt) => jwt, { typ: "JWT" }),
      "another issuer": await forge((jwt) => jwt.setIssuer("someone")),
      "another audience": await forge((jwt) => jwt.setAudience("leafmesh-room/2")),
      "an old date": await forge((jwt) => jwt.setExpirationTime(1)),
      "no algorithm": new UnsecuredJWT({ room: "room_1", seat: "device", jti: "t" }).encode(),
      "a header with an extension": await forge((jwt) => jwt, { cty: "JWT" }),
      "a signature cut short": (await forge((jwt) => jwt)).slice(0, -4),
      "no signature": (await forge((jwt) => jwt)).replace(/[^.]*$/, ""),
      "a part too many": `${await forge((jwt) => jwt)}.`,
      "other claims under the signature": (await forge((jwt) => jwt)).replace(
        /\..*\./,
        `.${Buffer.from(JSON.stringify({ room: "room_2", seat: "mesh", jti: "t_1" })).toString("base64url")}.`,
      ),
      nonsense: "a.b.c",
      nothing: "",
    };
    for (const [what, token] of Object.entries(refused)) {
      expect([what, await tokens.verify(token)]).toEqual([what, undefined]);
    }
    const missing = new SignJWT({ room: "room_1" })
      .setProtectedHeader({ alg: "HS256", typ: "lmr+jwt", kid: "a" })
      .setIssuer("leafmesh")
      .setAudience("leafmesh-room/1");
    expect(await tokens.verify(await missing.sign(new TextEncoder().encode("a".repeat(32))))).toBeUndefined();
  });

  it("are read by a JOSE library", async () => {
    const clock = createFakeClock();
    const token = await createSeatTokens(clock, [key("a")]).sign(claims, clock.nowMs() + 1500);
    const { payload } = await jwtVerify(token, new TextEncoder().encode("a".repeat(32)), {
      algorithms: ["HS256"],
      typ: "lmr+jwt",
      issuer: "leafmesh",
      audience: "leafmesh-room/1",
      currentDate: new Date(clock.nowMs()),
    });
    const nowS = Math.floor(clock.nowMs() / 1000);
    expect(payload).toMatchObject({ ...claims, iat: nowS, exp: Math.ceil((clock.nowMs() + 1500) / 1000) });
  });

  it("survive a rotation while the old key is listed, and not after it", async () => {
    const clock = createFakeClock();
    const token = await createSeatTokens(clock, [key("a")]).sign(claims, clock.nowMs() + 60_000);
    expect(await createSeatTokens(clock, [key("b"), key("a")]).verify(token)).toEqual(claims);
    expect(await createSeatTokens(clock, [key("b")]).verify(token)).toBeUndefined();
    expect(await createSeatTokens(clock).verify(token)).toBeUndefined();
  });

  it("do not mind a wall clock that is a little off", async () => {
    const clock = createFakeClock();
    const tokens = createSeatTokens(clock);
    const token = await tokens.sign(claims, clock.nowMs() + 5000);
    clock.setWallClock(clock.nowMs() + 30_000);
    expect(await tokens.verify(token)).toEqual(claims);
    clock.setWallClock(clock.nowMs() + 60_000);
    expect(await tokens.verify(token)).toBeUndefined();
  });

  it("are not made with a short key", async () => {
    const tokens = createSeatTokens(createFakeClock(), [{ kid: "a", secret: new Secret("short") }]);
    await expect(tokens.sign(claims, 0)).rejects.toThrow("token key a must have at least 32 bytes");
  });
});
