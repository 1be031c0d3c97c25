import { describe, expect, it, onTestFinished } from "vitest";
import type { RoomCallbackAnswer } from "./routes/room-callbacks.ts";
import { startTestServer } from "./test-server.ts";

const ASK = { socket_id: "1.2", channel_name: "presence-room", seat: "00000000-0000-4000-8000-000000000001" };

async function ask(answer: RoomCallbackAnswer | undefined, body: unknown = ASK, authorization = "Bearer token-1") {
  const asked: unknown[] = [];
  const roomCallbacks = {
    answer(...question: readonly unknown[]) {
      asked.push(question);
      return answer;
    },
  };
  const server = await startTestServer({ roomCallbacks, apiKeys: ["key-1"] });
  onTestFinished(() => server.close());
  const response = await fetch(`${server.url}/room-callbacks/rcb_1`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(authorization ? { authorization } : {}) },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const kept = response.headers.get("cache-control");
  return { asked, kept, status: response.status, body: text === "" ? undefined : JSON.parse(text) };
}

describe("a device that asks the mesh to vouch for it", () => {
  it("gets the signature with its room's token alone, and nothing on the way keeps it", async () => {
    const voucher = { auth: "key:abc", channel_data: '{"user_id":"device-1"}' };
    const answered = await ask({ status: "vouched", voucher });
    expect(answered).toMatchObject({ status: 200, body: voucher, kept: "no-store" });
    expect(answered.asked).toEqual([["rcb_1", "token-1", ASK]]);
  });

  it("can say that the person did not allow it", async () => {
    const answered = await ask({ status: "noted" }, { refuse: "not_allowed" });
    expect(answered).toMatchObject({ status: 204, asked: [["rcb_1", "token-1", { refuse: "not_allowed" }]] });
  });

  it.each([
    [{ status: "bad_token" }, 401, "bad_token"],
    [{ status: "wrong_channel" }, 403, "wrong_channel"],
    [undefined, 404, "no_such_room"],
    [{ status: "taken" }, 409, "room_taken"],
    [{ status: "over" }, 410, "room_over"],
  ] as const)("is told why not: %o", async (answer, status, code) => {
    expect(await ask(answer)).toMatchObject({ status, body: { error: { code } } });
  });

  it.each([
    ["no token", ASK, "", 401],
    ["a token that is none", ASK, "Basic dG9rZW4=", 401],
    ["a socket that is none", { ...ASK, socket_id: "1:2" }, "Bearer token-1", 400],
    ["a seat that is none", { ...ASK, seat: "device" }, "Bearer token-1", 400],
    ["something else with it", { ...ASK, user_id: "mesh" }, "Bearer token-1", 400],
    ["a body that is too large", { ...ASK, channel_name: "x".repeat(5_000) }, "Bearer token-1", 413],
  ] as const)("with %s is not even looked at", async (_title, body, authorization, status) => {
    expect(await ask({ status: "noted" }, body, authorization)).toMatchObject({ status, asked: [] });
  });
});
