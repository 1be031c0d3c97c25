import { ROOM_PROTOCOL_VERSION, ROOM_VERSION_HEADER } from "@leafmesh/protocol";
import type { ConformanceTest } from "../conformance-test.ts";
import { expectEqual, expectOneOf, expectThat, pauseFor } from "../verdict.ts";
import { errorOf } from "../workbench.ts";

/** Room clocks and ours may differ by this much. */
const CLOCK_TOLERANCE_S = 2;

export const httpTests: readonly ConformanceTest[] = [
  {
    id: "C1",
    title: "opening a room answers 201 with every field",
    async run(bench) {
      const nowS = Date.now() / 1000;
      const room = await bench.open({ ttl_s: 60, join_within_s: 30 });
      for (const [field, token] of Object.entries({ mesh_token: room.mesh_token, device_token: room.device_token })) {
        expectThat(/^[A-Za-z0-9._~-]{22,512}$/.test(token), `${field} must be 22 to 512 URL-safe ASCII characters`);
      }
      expectThat(room.mesh_token !== room.device_token, "mesh_token and device_token must differ");
      expectThat(/^[A-Za-z0-9._~-]+$/.test(room.room_id), "room_id must be URL-safe: it stands in a path");
      const url = URL.parse(room.connect_url);
      expectThat(
        url !== null && (url.protocol === "wss:" || (url.protocol === "ws:" && isLoopback(url.hostname))),
        `connect_url must be wss:// (ws:// on loopback only), got ${room.connect_url}`,
      );
      expectThat(!room.connect_url.includes(room.mesh_token), "connect_url must not hold a token");
      expectThat(
        Math.abs(room.device_token_expires_at - (nowS + 30)) <= CLOCK_TOLERANCE_S + 1,
        `device_token_expires_at must be join_within_s from now, got ${Math.round(room.device_token_expires_at - nowS)} s`,
      );
    },
  },
  {
    id: "C2",
    title: "a wrong or missing API key is answered 401 with the error body",
    async run(bench) {
      for (const key of ["not-the-key", null]) {
        const answer = await bench.call("POST", "/v1/rooms", { body: {}, key });
        expectEqual(answer.status, 401, `the status for ${key === null ? "no" : "a wrong"} API key`);
        expectEqual(errorOf(answer).code, "unauthorized", "error.code");
      }
    },
  },
  {
    id: "C3",
    title: "an Idempotency-Key opens one room; with another body it is answered 409",
    async run(bench) {
      const key = crypto.randomUUID();
      const headers = { "idempotency-key": key };
      const rooms = await Promise.all([1, 2, 3].map(() => bench.open({ ttl_s: 60 }, headers)));
      const again = await bench.open({ ttl_s: 60 }, headers);
      expectEqual(
        new Set([...rooms, again].map(({ room_id }) => room_id)).size,
        1,
        "rooms opened by one Idempotency-Key",
      );
      expectEqual(again.device_token, rooms[0]?.device_token, "the device_token of the repeat");
      const other = await bench.call("POST", "/v1/rooms", { body: { ttl_s: 61 }, headers });
      expectEqual(other.status, 409, "the status of the same Idempotency-Key with another body");
      expectEqual(errorOf(other).code, "conflict", "error.code");
    },
  },
  {
    id: "C4",
    title: "every answer carries the version; an unknown one is answered 400",
    async run(bench) {
      const good = await bench.call("POST", "/v1/rooms", { body: { ttl_s: 10 } });
      const bad = await bench.call("POST", "/v1/rooms", { body: {}, headers: { [ROOM_VERSION_HEADER]: "999" } });
      for (const answer of [good, bad]) {
        const version = answer.headers.get(ROOM_VERSION_HEADER);
        expectEqual(version, String(ROOM_PROTOCOL_VERSION), `LeafMesh-Room-Version of the ${answer.status}`);
      }
      expectEqual(bad.status, 400, "the status for version 999");
      expectEqual(errorOf(bad).code, "unsupported_version", "error.code");
    },
  },
  {
    id: "C5",
    title: "closing is idempotent; an unknown room is answered 404",
    async run(bench) {
      const room = await bench.open();
      expectEqual((await bench.delete(room.room_id)).status, 204, "the status of DELETE");
      expectEqual((await bench.delete(room.room_id)).status, 204, "the status of a second DELETE");
      const unknown = await bench.delete(`${room.room_id.slice(0, -4)}zzzz`);
      expectEqual(unknown.status, 404, "the status of DELETE for an unknown room");
      expectEqual(errorOf(unknown).code, "room_not_found", "error.code");
    },
  },
  {
    id: "C6",
    title: "a room lives as long as ttl_s says, give or take 2 s",
    async run(bench) {
      const openedAtMs = performance.now();
      const room = await bench.open({ ttl_s: 10, join_within_s: 5 });
      const announced = room.expires_at - Date.now() / 1000;
      expectThat(
        Math.abs(announced - 10) <= CLOCK_TOLERANCE_S,
        `expires_at must be 10 s from now, give or take ${CLOCK_TOLERANCE_S} s, got ${announced.toFixed(1)} s`,
      );
      const { socket } = await bench.join(room, "mesh");
      await socket.closed(13_000);
      const livedS = (performance.now() - openedAtMs) / 1000;
      expectThat(
        Math.abs(livedS - 10) <= CLOCK_TOLERANCE_S,
        `the room must end after 10 s, it lived ${livedS.toFixed(1)} s`,
      );
    },
  },
  {
    id: "C7",
    title: "a new device token voids the old unused one",
    async run(bench) {
      const room = await bench.open();
      const answer = await bench.call("POST", `/v1/rooms/${room.room_id}/device-token`);
      expectEqual(answer.status, 201, "the status of POST …/device-token");
      const second = deviceTokenOf(answer.json);
      const code = await bench.refusedWith(room, { token: room.device_token });
      expectOneOf(code, [4401, 4409], "the close code for the voided token");
      const socket = await bench.connect(room);
      socket.hello({ token: second });
      expectEqual((await socket.next("welcome")).seat, "device", "the seat of the new token");
    },
  },
  {
    id: "C8",
    title: "GET tells whether the device is there, away or gone, and how far the task got",
    async run(bench) {
      const room = await bench.open();
      const seen = [await bench.status(room)];
      const { device } = await bench.joinBoth(room);
      seen.push(await bench.status(room));
      expectThat(typeof seen[1]?.device.joined_at === "number", "device.joined_at must be set after the join");
      await device.socket.drop();
      // The service may take a moment to see the loss.
      for (let tries = 0; tries < 20 && (await bench.status(room)).state === "joined"; tries++) await pauseFor(50);
      seen.push(await bench.status(room));
      await bench.delete(room.room_id);
      seen.push(await bench.status(room));
      const states = seen.map(({ state }) => state);
      expectEqual(
        states,
        ["open", "joined", "away", "closed"],
        "state before the join, after it, after a drop, after DELETE",
      );
      expectEqual(seen[1]?.task, { handed: false, acked: false, replied: false }, "task before any was sent");
    },
  },
];

function deviceTokenOf(json: unknown): string {
  const token = typeof json === "object" && json !== null && "device_token" in json ? json.device_token : undefined;
  expectThat(typeof token === "string", "the 201 of POST …/device-token must hold device_token");
  return token;
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
}
