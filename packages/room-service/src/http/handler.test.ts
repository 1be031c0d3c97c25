import { request as httpRequest } from "node:http";
import { openedRoomSchema, ROOM_VERSION_HEADER, roomErrorSchema, Secret } from "@leafmesh/protocol";
import { describe, expect, it, onTestFinished } from "vitest";
import { type ServeRoomsOptions, serveRooms } from "../serve.ts";

const keys = { first: "first-key-for-the-room-service", second: "second-key-for-the-room-service" };

async function startService(options: Partial<ServeRoomsOptions> = {}) {
  const server = await serveRooms({
    host: "127.0.0.1",
    port: 0,
    apiKeys: Object.values(keys).map((key) => new Secret(key)),
    ...options,
  });
  onTestFinished(() => server.close());
  const call = async (
    method: string,
    path: string,
    { body, headers = {}, key = keys.first }: { body?: unknown; headers?: Record<string, string>; key?: string } = {},
  ) => {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, [ROOM_VERSION_HEADER]: "1", ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, json: text ? JSON.parse(text) : undefined };
  };
  const open = async (body: unknown = {}, key = keys.first) => {
    const answer = await call("POST", "/v1/rooms", { body, key });
    expect(answer.status).toBe(201);
    return openedRoomSchema.parse(answer.json);
  };
  return { server, call, open };
}

describe("POST /v1/rooms", () => {
  it("opens a room of one owner, named with 128 random bits", async () => {
    const { call, open } = await startService();
    const room = await open({ ttl_s: 60, join_within_s: 10, approval: "ask", device: { ref: "hash" }, unknown: true });
    expect(room.room_id).toMatch(/^room_[A-Za-z0-9_-]{22}$/);
    expect(room.connect_url).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\/v1\/connect$/);
    expect(room.device_token_expires_at).toBeLessThan(room.expires_at - 45);
    expect(room.limits).toMatchObject({ frame: 65_536, grace_s: 15 });
    const stranger = await call("GET", `/v1/rooms/${room.room_id}`, { key: keys.second });
    expect([stranger.status, stranger.json.error.code]).toEqual([404, "room_not_found"]);
    expect((await call("DELETE", `/v1/rooms/${room.room_id}`, { key: keys.second })).status).toBe(404);
    expect((await call("GET", `/v1/rooms/${room.room_id}`)).json).toEqual({
      state: "open",
      device: {},
      task: { handed: false, acked: false, replied: false },
    });
  });

  it("takes an empty body as the defaults", async () => {
    const { call } = await startService();
    const answer = await call("POST", "/v1/rooms");
    expect(answer.status).toBe(201);
    expect(answer.json.expires_at - Date.now() / 1000).toBeGreaterThan(118);
  });

  it.each([
    ["a body that is not JSON", "{", 400, "invalid_request"],
    ["a body that is not UTF-8", "\ud800", 422, "invalid_request"],
    ["a life that is too short", { ttl_s: 9 }, 422, "invalid_request"],
    ["a life that is too long", { ttl_s: 901 }, 422, "invalid_request"],
    ["a wrong approval", { approval: "maybe" }, 422, "invalid_request"],
    ["an array", [], 422, "invalid_request"],
    ["a body over 16 KiB", { device: { ref: "x".repeat(20_000) } }, 413, "too_large"],
  ])("answers %s with its error", async (_name, body, status, code) => {
    const { call } = await startService();
    const answer = await call("POST", "/v1/rooms", { body: body === "\ud800" ? '"\\ud800"' : body });
    expect(answer.status).toBe(status);
    expect(roomErrorSchema.parse(answer.json).error).toMatchObject({ code, temporary: false });
  });

  it("names the field that is wrong", async () => {
    const { call } = await startService();
    const answer = await call("POST", "/v1/rooms", { body: { join_within_s: 1 } });
    expect(answer.json.error.message).toContain("join_within_s: ");
  });

  it("keeps one room per Idempotency-Key and owner, and remembers a closed one as closed", async () => {
    const { call, open } = await startService();
    const headers = { "idempotency-key": "once" };
    const body = { ttl_s: 60 };
    const answers = await Promise.all([1, 2, 3].map(() => call("POST", "/v1/rooms", { body, headers })));
    expect(new Set(answers.map(({ json }) => json.room_id)).size).toBe(1);
    expect(answers.every(({ json }) => json.mesh_token === answers[0]?.json.mesh_token)).toBe(true);
    const reordered = await call("POST", "/v1/rooms", { body: { join_within_s: 60, ttl_s: 60 }, headers });
    expect(reordered.json.room_id).toBe(answers[0]?.json.room_id);
    expect((await call("POST", "/v1/rooms", { body, headers, key: keys.second })).json.room_id).not.toBe(
      reordered.json.room_id,
    );
    expect((await open(body)).room_id).not.toBe(reordered.json.room_id);

    const other = await call("POST", "/v1/rooms", { body: { ttl_s: 61 }, headers });
    expect([other.status, other.json.error.code]).toEqual([409, "conflict"]);
    await call("DELETE", `/v1/rooms/${reordered.json.room_id}`);
    const closed = await call("POST", "/v1/rooms", { body, headers });
    expect([closed.status, closed.json.error.code]).toEqual([410, "room_closed"]);
    expect(JSON.stringify(closed.json)).not.toContain("token");
    expect((await call("POST", "/v1/rooms", { headers: { "idempotency-key": "x".repeat(256) } })).status).toBe(422);
  });

  it("has a bound per key and one in all", async () => {
    const { call, open } = await startService({ bounds: { roomsPerKey: 2, rooms: 3 } });
    const [room] = [await open(), await open()];
    const perKey = await call("POST", "/v1/rooms");
    expect(perKey.status).toBe(429);
    expect(perKey.json.error).toMatchObject({ code: "rate_limited", temporary: true, retry_after_s: 5 });
    expect(perKey.headers.get("retry-after")).toBe("5");
    await open({}, keys.second);
    const inAll = await call("POST", "/v1/rooms", { key: keys.second });
    expect([inAll.status, inAll.json.error.code]).toEqual([503, "unavailable"]);
    await call("DELETE", `/v1/rooms/${room?.room_id}`);
    await open();
  });

  it("has a rate per key", async () => {
    const { call } = await startService({ bounds: { opensBurst: 2, opensPerSecond: 0.1 } });
    const statuses = [];
    for (let opened = 0; opened < 3; opened++) statuses.push((await call("POST", "/v1/rooms")).status);
    expect(statuses).toEqual([201, 201, 429]);
    expect((await call("POST", "/v1/rooms", { key: keys.second })).status).toBe(201);
  });
});

describe("the other routes", () => {
  it("issue tokens until the device has come, and none for a closed room", async () => {
    const { call, open } = await startService();
    const room = await open({ join_within_s: 20 });
    const device = await call("POST", `/v1/rooms/${room.room_id}/device-token`);
    expect(device.status).toBe(201);
    expect(device.json.device_token).not.toBe(room.device_token);
    expect(device.json.device_token_expires_at - Date.now() / 1000).toBeLessThan(21);
    const mesh = await call("POST", `/v1/rooms/${room.room_id}/mesh-token`);
    expect(mesh.json).toEqual({
      connect_url: room.connect_url,
      mesh_token: expect.any(String),
      mesh_token_expires_at: expect.any(Number),
    });
    expect(Math.abs(mesh.json.mesh_token_expires_at - room.expires_at)).toBeLessThanOrEqual(1);
    await call("DELETE", `/v1/rooms/${room.room_id}`);
    for (const action of ["device-token", "mesh-token"]) {
      const late = await call("POST", `/v1/rooms/${room.room_id}/${action}`);
      expect([late.status, late.json.error.code]).toEqual([410, "room_closed"]);
      expect((await call("POST", `/v1/rooms/room_unknown/${action}`)).status).toBe(404);
    }
  });

  it("answer what is not there and what is not allowed", async () => {
    const { call, open } = await startService();
    const room = await open();
    expect((await call("GET", "/v1/rooms")).status).toBe(405);
    expect((await call("PUT", `/v1/rooms/${room.room_id}`)).headers.get("allow")).toBe("GET, DELETE");
    expect((await call("GET", `/v1/rooms/${room.room_id}/device-token`)).status).toBe(405);
    expect((await call("POST", `/v1/rooms/${room.room_id}/blobs`)).status).toBe(404);
    expect((await call("POST", `/v1/rooms/${room.room_id}/device-token/more`)).status).toBe(404);
    expect((await call("GET", "/v1/rooms/")).status).toBe(404);
    expect((await call("GET", "/elsewhere")).json.error.code).toBe("not_found");
    const connect = await call("GET", "/v1/connect");
    expect([connect.status, connect.headers.get("upgrade")]).toEqual([426, "websocket"]);
  });

  it("say the version on every answer, refuse another one with those that are spoken, and take none as this one", async () => {
    const { server, call } = await startService();
    const bad = await call("GET", "/v1/rooms/x", { headers: { [ROOM_VERSION_HEADER]: "2" } });
    expect(bad.status).toBe(400);
    expect(bad.json.error).toMatchObject({ code: "unsupported_version", supported: [1] });
    expect(bad.headers.get(ROOM_VERSION_HEADER)).toBe("1");
    const none = await fetch(`${server.url}/v1/rooms/x`, { headers: { authorization: `Bearer ${keys.first}` } });
    expect([none.status, none.headers.get(ROOM_VERSION_HEADER)]).toEqual([404, "1"]);
  });

  it.each([
    ["no key", undefined],
    ["a wrong key", "Bearer nonsense"],
    ["another scheme", `Basic ${keys.first}`],
    ["half a key", `Bearer ${keys.first.slice(1)}`],
    ["an empty key", "Bearer "],
  ])("answer %s with 401", async (_name, authorization) => {
    const { server } = await startService();
    const headers: Record<string, string> = authorization ? { authorization } : {};
    const answer = await fetch(`${server.url}/v1/rooms`, { method: "POST", headers });
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    expect(roomErrorSchema.parse(await answer.json()).error.code).toBe("unauthorized");
  });

  it("are not there at all without API keys", async () => {
    const { server } = await startService({ apiKeys: [] });
    expect((await fetch(`${server.url}/v1/rooms`, { method: "POST" })).status).toBe(404);
  });

  it("do not wait for the rest of a body that is announced too large", async () => {
    const { server } = await startService();
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest(`${server.url}/v1/rooms`, {
        method: "POST",
        headers: { authorization: `Bearer ${keys.first}`, "content-length": "10000000" },
      });
      request.on("response", (response) => resolve(response.statusCode));
      request.on("error", reject);
      request.write("{");
    });
    expect(status).toBe(413);
  });
});
