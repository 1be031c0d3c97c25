import { randomId, silentLogger, systemClock } from "@leafmesh/protocol";
import {
  PUSHER_REFUSALS,
  type PusherDouble,
  type PusherDoubleOptions,
  startPusherDouble,
} from "@leafmesh/testkit/pusher";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Closable, RoomError, type RoomErrorKind } from "../contract.ts";
import { pusherRoom } from "./pusher.ts";
import { PusherDoor } from "./pusher-door.ts";
import { pusherAnswerError, pusherFaultError } from "./pusher-errors.ts";
import { parsePusherPlace } from "./pusher-place.ts";

const soon = (): AbortSignal => AbortSignal.timeout(5_000);
const RECORD = { app_id: "1234567", key: "pusher-key", secret: "pusher-app-secret", cluster: "eu" };

async function double(options: PusherDoubleOptions = {}): Promise<PusherDouble> {
  const started = await startPusherDouble(options);
  onTestFinished(() => started.close());
  return started;
}

function provider(record: Readonly<Record<string, string>>) {
  const shared: Closable[] = [];
  onTestFinished(async () => {
    for (const each of shared) await each.close();
  });
  const dependencies = {
    ...{ clock: systemClock, logger: silentLogger, newId: randomId },
    scope: {
      share: <Value extends Closable>(_key: string, make: () => Value) => {
        const value = make();
        shared.push(value);
        return value;
      },
    },
  };
  return pusherRoom.create(pusherRoom.options.parse(record), dependencies);
}

describe("a pusher record", () => {
  it.each([
    ["no secret", { ...RECORD, secret: undefined }, "secret"],
    ["an address as cluster", { ...RECORD, cluster: "https://api-eu.pusher.com" }, "such as eu or mt1"],
    ["a metadata address", { ...RECORD, cluster: "169.254.169.254:80" }, "metadata"],
    ["an app id with a slash", { ...RECORD, app_id: "1/2" }, "a number such as 1234567"],
    ["a field of another provider", { ...RECORD, api_key: "x" }, "Unrecognized key"],
  ])("with %s is refused, and says what to write", (_title, record, sentence) => {
    expect(pusherRoom.options.safeParse(record).error?.message).toContain(sentence);
  });

  it.each([
    [undefined, "needs server.public_url, the https address at which devices reach the mesh"],
    ["http://mesh.example.com", "must start with https://"],
    ["https://169.254.169.254", "metadata"],
  ])("of a mesh at %s says that devices have to reach it", (publicUrl, sentence) => {
    const [issue] = pusherRoom.validate?.(pusherRoom.options.parse(RECORD), { publicUrl }) ?? [];
    expect(issue?.message).toContain(sentence);
  });

  it("of a mesh at an https address is taken, and of one on this machine", () => {
    for (const publicUrl of ["https://mesh.example.com", "http://127.0.0.1:8080"]) {
      expect(pusherRoom.validate?.(pusherRoom.options.parse(RECORD), { publicUrl })).toEqual([]);
    }
  });

  it("opens no room where no device can reach the mesh", async () => {
    const request = { askId: "a", deviceId: "d", approval: "ask", joinWithinMs: 1_000, lifetimeMs: 2_000 } as const;
    await expect(provider(RECORD).open(request, soon())).rejects.toMatchObject({ message: /server\.public_url/ });
  });

  it("leads to Pusher's cluster, or in plain text to this machine alone", () => {
    expect(parsePusherPlace("mt1")).toMatchObject({ apiUrl: "https://api-mt1.pusher.com", client: { forceTLS: true } });
    expect(parsePusherPlace("rooms.example.com")).toMatchObject({
      apiUrl: "https://rooms.example.com:443",
      client: { wsHost: "rooms.example.com", wssPort: 443, forceTLS: true },
    });
    expect(parsePusherPlace("localhost:6001")).toMatchObject({ apiUrl: "http://localhost:6001" });
  });
});

describe("the test of a pusher connection", () => {
  const recordOf = ({ app, host }: PusherDouble) => ({
    ...{ app_id: app.appId, key: app.key, secret: app.secret, cluster: host },
  });

  it("is active when the app takes events of the mesh and of devices", async () => {
    const pusher = await double();
    expect(await provider(recordOf(pusher)).check(soon())).toEqual({ status: "active" });
  });

  it("says in one sentence when client events are off", async () => {
    const pusher = await double({ clientEvents: false });
    expect(await provider(recordOf(pusher)).check(soon())).toEqual({
      status: "failing",
      reason:
        "Client events are off, so no device can answer: turn on Enable client events in your Pusher app → App Settings.",
    });
  });

  it("says which of the fields is wrong, and shows none", async () => {
    const pusher = await double();
    const secret = await provider({ ...recordOf(pusher), secret: "another-secret" }).check(soon());
    expect(secret).toMatchObject({ status: "failing", reason: expect.stringContaining("copy app id, key and secret") });
    expect(JSON.stringify(secret)).not.toContain("another-secret");
    const app = await provider({ ...recordOf(pusher), app_id: "7" }).check(soon());
    expect(app).toMatchObject({ status: "failing", reason: expect.stringContaining("App Keys") });
  });

  it.each([
    ["Pusher is in trouble", PUSHER_REFUSALS.trouble, "readable"],
    ["too much was asked", PUSHER_REFUSALS.rate, "readable"],
    ["the plan is used up", PUSHER_REFUSALS.quota, "failing"],
    ["the app is disabled", PUSHER_REFUSALS.disabled, "failing"],
  ] as const)("tells %s apart", async (_title, refusal, status) => {
    const pusher = await double();
    pusher.refuseEvents(refusal);
    expect(await provider(recordOf(pusher)).check(soon())).toMatchObject({ status });
  });

  it("says when the connections are used up", async () => {
    const pusher = await double();
    pusher.refuseConnections({ code: 4004, message: "Application is over connection quota" });
    expect(await provider(recordOf(pusher)).check(soon())).toMatchObject({
      status: "failing",
      reason: expect.stringContaining("larger plan"),
    });
  });
});

describe("an error of Pusher", () => {
  it.each([
    [4001, "App key not in this cluster", "bad_credential", "cluster"],
    [4003, "Application disabled", "bad_credential", "disabled"],
    [4009, "Connection not authorized within timeout", "bad_credential", "secret"],
    [undefined, "Invalid signature: Expected HMAC", "bad_credential", "secret"],
    [
      undefined,
      "To send client events, you must enable this feature in the Settings page",
      "bad_credential",
      "Enable client",
    ],
    [4301, "Client events are not enabled for this app", "bad_credential", "Enable client events"],
    [4301, "Client event rejected due to rate limit", "rate", "fewer"],
    [4004, "Application is over connection quota", "plan_limit", "larger plan"],
    [4100, "Over capacity", "plan_limit", "larger plan"],
    [4007, "Unsupported protocol version", "mismatch", "refused"],
    [4200, "Generic reconnect immediately", "unavailable", "status.pusher.com"],
    [4201, "Pong reply not received", "unavailable", "status.pusher.com"],
    [undefined, "", "unavailable", "status.pusher.com"],
  ] as const)("over the socket with code %s (%s) is %s", (code, message, kind: RoomErrorKind, cure) => {
    const error = pusherFaultError({ code, message });
    expect(error).toMatchObject({ kind, message: expect.stringContaining(cure) });
    if (message.length > 20) expect(error.message).not.toContain(message);
  });

  it.each([
    [401, "Invalid signature", "bad_credential"],
    [403, "App is disabled", "bad_credential"],
    [403, "message quota exceeded", "plan_limit"],
    [400, "API call failed since (daily) message quota exceeded", "plan_limit"],
    [413, "quota exceeded", "plan_limit"],
    [413, "Payload too large", "too_big"],
    [404, "", "bad_credential"],
    [429, "", "rate"],
    [400, "Invalid channel", "mismatch"],
    [500, "", "unavailable"],
    [503, "quota", "unavailable"],
    [302, "", "unavailable"],
  ] as const)("as an answer %i (%s) is %s", (status, body, kind: RoomErrorKind) => {
    expect(pusherAnswerError({ status, body })).toMatchObject({ kind, code: String(status) });
  });

  it("is none where Pusher took the request", () => {
    expect(pusherAnswerError({ status: 200, body: "{}" })).toBeUndefined();
    expect(pusherFaultError({ code: 4001, message: "" })).toBeInstanceOf(RoomError);
  });
});

describe("the door of a pusher room", () => {
  const channel = "presence-cache-leafmesh-room_1";
  const seats = Array.from({ length: 6 }, (_, index) => `00000000-0000-4000-8000-00000000000${index}`);
  const open = () => {
    let aheadMs = 0;
    let refused = 0;
    const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs };
    const times = { joinWithinMs: 30_000, lifetimeMs: 180_000 };
    const record = pusherRoom.options.parse(RECORD) as ConstructorParameters<typeof PusherDoor>[0]["record"];
    const door = new PusherDoor({ ...{ record, channel, clock }, ...times, refused: () => refused++ });
    const forward = (ms: number): void => {
      aheadMs += ms;
    };
    const ask = (seat: string | undefined, more: { token?: string; channel_name?: string } = {}) =>
      door.answer({
        token: more.token ?? door.token,
        callback: { socket_id: "1.2", channel_name: more.channel_name ?? channel, seat: seat ?? "" },
      }).status;
    return { door, ask, refusals: () => refused, forward };
  };

  it("signs for this connection and channel, as Pusher documents it", () => {
    const { door } = open();
    const answer = door.answer({
      token: door.token,
      callback: { socket_id: "1234.5678", channel_name: channel, seat: seats[0] ?? "" },
    });
    expect(answer).toEqual({
      status: "vouched",
      voucher: {
        auth: expect.stringMatching(/^pusher-key:[0-9a-f]{64}$/),
        channel_data: JSON.stringify({ user_id: `device-${seats[0]}` }),
      },
    });
  });

  it("is closed to who has another token, wants another channel, or comes late", () => {
    const { ask, forward } = open();
    expect(ask(seats[0], { token: "another" })).toBe("bad_token");
    expect(ask(seats[0], { token: "" })).toBe("bad_token");
    expect(ask(seats[0], { channel_name: "presence-of-another" })).toBe("wrong_channel");
    forward(41_000);
    expect(ask(seats[0])).toBe("over");
  });

  it("lets a few holders of the ring come, and only the first in again", () => {
    const { door, ask, forward } = open();
    expect(seats.map((seat) => ask(seat))).toEqual([...Array(4).fill("vouched"), "taken", "taken"]);
    door.take(seats[1] ?? "");
    forward(60_000);
    expect([ask(seats[0]), ask(seats[1])]).toEqual(["taken", "vouched"]);
    forward(121_000);
    expect(ask(seats[1])).toBe("over");
  });

  it("takes a person's refusal until somebody is in", () => {
    const { door, refusals } = open();
    const refuse = () => door.answer({ token: door.token, callback: { refuse: "not_allowed" } }).status;
    expect(refuse()).toBe("noted");
    door.take(seats[0] ?? "");
    expect(refuse()).toBe("taken");
    expect(refusals()).toBe(1);
  });
});
