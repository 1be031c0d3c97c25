import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { randomId, silentLogger, systemClock } from "@leafmesh/protocol";
import { TokenVerifier } from "livekit-server-sdk";
import { describe, expect, it, onTestFinished } from "vitest";
import type { RoomErrorKind } from "../contract.ts";
import { livekitRoom } from "./livekit.ts";
import { LiveKitControl, livekitRoomError } from "./livekit-control.ts";

const KEY = "devkey";
const SECRET = "a-livekit-secret-of-at-least-32-characters";

interface Refusal {
  readonly status: number;
  readonly code: string;
}

/** LiveKit's HTTP API as far as rooms need it: what it was asked, with the right that the token gave. */
async function startApi(refusal?: Refusal) {
  const calls: { readonly method: string; readonly body: Record<string, unknown>; readonly grant: unknown }[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const answer = (status: number, body: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    const token = request.headers.authorization?.replace("Bearer ", "") ?? "";
    const claims = await new TokenVerifier(KEY, SECRET).verify(token).catch(() => undefined);
    if (!claims) return answer(401, { code: "unauthenticated", msg: "invalid token" });
    if (refusal) return answer(refusal.status, { code: refusal.code, msg: `said by the service, ${SECRET}` });
    const method = (request.url ?? "").split("/").at(-1) ?? "";
    const body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    calls.push({ method, body, grant: claims.video });
    answer(200, method === "CreateRoom" ? { name: body.name } : {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
}

function check(record: Readonly<Record<string, string>>) {
  const dependencies = {
    ...{ clock: systemClock, logger: silentLogger, newId: randomId },
    scope: { share: <Value>(_key: string, make: () => Value) => make() },
  };
  return livekitRoom.create(livekitRoom.options.parse(record), dependencies).check(AbortSignal.timeout(8_000));
}

describe("a livekit record", () => {
  const good = { url: "wss://project.livekit.cloud", api_key: KEY, api_secret: SECRET };
  it.each([
    [
      "an address without its scheme",
      { ...good, url: "project.livekit.cloud" },
      "write the address as LiveKit shows it",
    ],
    [
      "plain text to another machine",
      { ...good, url: "ws://livekit.example.com" },
      "write the address as LiveKit shows it",
    ],
    ["no secret", { url: good.url, api_key: KEY }, "api_secret"],
    ["a field of another provider", { ...good, origin: "x" }, "Unrecognized key"],
  ])("with %s is refused, and says what to write", (_title, record, sentence) => {
    expect(livekitRoom.options.safeParse(record).error?.message).toContain(sentence);
  });

  it("names both packages that the mesh's own seat needs", () => {
    expect(livekitRoom.packages).toEqual(["livekit-server-sdk", "@livekit/rtc-node"]);
  });
});

describe("the test of a livekit connection", () => {
  it("makes a room with the key and deletes it, and nobody enters", async () => {
    const { url, calls } = await startApi();
    expect(await check({ url, api_key: KEY, api_secret: SECRET })).toEqual({ status: "active" });
    expect(calls.map(({ method }) => method)).toEqual(["CreateRoom", "DeleteRoom"]);
    expect(calls[0]?.body).toMatchObject({ name: expect.stringMatching(/^leafmesh-probe/), emptyTimeout: 10 });
  });

  it("says when the secret is another, without either", async () => {
    const { url } = await startApi();
    const result = await check({ url, api_key: KEY, api_secret: `${SECRET}-not` });
    expect(result).toMatchObject({ status: "failing", reason: expect.stringContaining("copy both again") });
    expect(JSON.stringify(result)).not.toContain(SECRET);
  });

  it.each([
    [403, "permission_denied", "failing"],
    [429, "resource_exhausted", "failing"],
    [503, "unavailable", "readable"],
    [500, "internal", "readable"],
  ] as const)("tells %i %s apart", async (status, code, verdict) => {
    const { url } = await startApi({ status, code });
    const result = await check({ url, api_key: KEY, api_secret: SECRET });
    expect(result).toMatchObject({ status: verdict });
    expect(JSON.stringify(result)).not.toContain("said by the service");
  });

  it("has no verdict when nobody answers", async () => {
    const result = await check({ url: "ws://127.0.0.1:1", api_key: KEY, api_secret: SECRET });
    expect(result).toMatchObject({ status: "readable" });
  });
});

describe("the token of a device", () => {
  it("joins its one room for the time of joining, sends data and does nothing else", async () => {
    const control = new LiveKitControl({ url: "wss://x", api_key: KEY, api_secret: SECRET });
    const claims = await new TokenVerifier(KEY, SECRET).verify(await control.token("room-1", "lmd_1", 45));
    expect(claims).toMatchObject({ sub: "lmd_1", video: { room: "room-1", roomJoin: true, canPublishData: true } });
    expect(claims.video).toMatchObject({ canPublish: false, canUpdateOwnMetadata: false });
    expect(claims.video?.roomAdmin ?? false).toBe(false);
    expect((claims as { exp: number }).exp - Date.now() / 1000).toBeLessThanOrEqual(46);
  });
});

describe("an answer of LiveKit", () => {
  it.each([
    ["unauthenticated", 401, "bad_credential"],
    ["permission_denied", 403, "bad_credential"],
    ["resource_exhausted", 429, "plan_limit"],
    ["unavailable", 503, "unavailable"],
    ["deadline_exceeded", 408, "unavailable"],
    ["internal", 500, "unavailable"],
    ["invalid_argument", 400, "mismatch"],
    ["not_found", 404, "mismatch"],
  ] as const)("%s is %s", (code, status, kind: RoomErrorKind) => {
    expect(livekitRoomError({ code, status })).toMatchObject({ kind, code });
  });
});
