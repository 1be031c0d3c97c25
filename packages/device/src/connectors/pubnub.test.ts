import { pubnubRoom } from "@leafmesh/rooms";
import { PUBNUB_REFUSALS, startPubNubDouble } from "@leafmesh/testkit/pubnub";
import { patient, type RoomServiceUnderTest, startRoomMesh, testRoom } from "@leafmesh/testkit/suites";
import { startTcpProxy } from "@leafmesh/testkit/tcp-proxy";
import PubNub from "pubnub";
import { describe, expect, it, onTestFinished } from "vitest";
import type { JoinError } from "../connector.ts";
import { pubnubConnector } from "./pubnub.ts";

const REFUSALS = {
  bad_credential: PUBNUB_REFUSALS.forbidden,
  plan_limit: PUBNUB_REFUSALS.quota,
  rate: PUBNUB_REFUSALS.rate,
  trouble: PUBNUB_REFUSALS.trouble,
} as const;

function recordOf({ keys, origin }: Awaited<ReturnType<typeof startPubNubDouble>>) {
  return { publish_key: keys.publishKey, subscribe_key: keys.subscribeKey, secret_key: keys.secretKey, origin };
}

testRoom(
  "pubnub",
  async (): Promise<RoomServiceUnderTest> => {
    const double = await startPubNubDouble({ presenceTimeoutMs: 150 });
    const between = await startTcpProxy(Number(double.origin.split(":")[1]));
    const record = { ...recordOf(double), origin: `127.0.0.1:${between.port}` };
    return {
      definition: pubnubRoom,
      record,
      secrets: [double.keys.secretKey],
      connector: () => pubnubConnector({ pubnub: PubNub }),
      cut({ join }, how) {
        const user = join.params?.user ?? "";
        double.cut(user);
        if (!how?.forGood) setTimeout(() => double.restore(user), 50);
      },
      restore: ({ join }) => double.restore(join.params?.user ?? ""),
      async repeat({ join }) {
        const last = double.published.findLast(({ channel }) => channel === `${join.room}.up`);
        if (last) double.inject(last.channel, last.publisher, last.payload);
      },
      stall() {
        between.set({ stallUp: true, stallDown: true });
        return () => between.set({ stallUp: false, stallDown: false });
      },
      refuseCheck(how) {
        if (how === "failing") return { ...record, secret_key: "sec-c-another" };
        between.block();
        return record;
      },
      inject: ({ join }, from, text) =>
        double.inject(`${join.room}.up`, from === "device" ? (join.params?.user ?? "") : "intruder", {
          seat: "any",
          number: 1,
          envelope: text,
        }),
      refuse(phase, how) {
        if (!(how in REFUSALS)) return undefined;
        const at = phase === "open" ? "grant" : "publish";
        double.refuse(at, REFUSALS[how as keyof typeof REFUSALS]);
        return () => double.refuse(at, undefined);
      },
      tasksTaken: () =>
        double.published.filter(({ payload }) => JSON.stringify(payload).includes('"type":"task"')).length,
      async close() {
        await between.stop();
        await double.close();
      },
    };
  },
  {
    cannot: {
      expire: "PubNub counts a token's life in whole minutes of real time",
      end: "PubNub ends no channel",
      tooLarge: "PubNub takes no message over 32 KiB, which is less than the largest envelope",
    },
  },
);

describe("a device in a PubNub room", () => {
  const open = async () => {
    const double = await startPubNubDouble();
    const mesh = startRoomMesh(pubnubRoom, recordOf(double));
    onTestFinished(async () => {
      await mesh.close();
      await double.close();
    });
    return { double, meshRoom: await mesh.open() };
  };
  const joinErrorOf = (attempt: Promise<unknown>): Promise<JoinError> =>
    attempt.then(
      () => {
        throw new Error("the join worked");
      },
      (error: JoinError) => error,
    );

  it("has a token that opens no other channel, and no other user may use", async () => {
    const { meshRoom } = await open();
    const { token, params: { publish = "", subscribe = "", user = "" } = {}, url } = meshRoom.ring.join;
    const clientAs = (userId: string) => {
      const keys = { publishKey: publish, subscribeKey: subscribe };
      const client = new PubNub({ ...keys, userId, ...(url ? { origin: url, ssl: false } : {}) });
      client.setToken(token);
      onTestFinished(() => client.destroy());
      return client;
    };
    const up = `${meshRoom.ring.join.room}.up`;
    const status = (userId: string, channel: string) =>
      clientAs(userId)
        .publish({ channel, message: { x: 1 } })
        .then(
          () => 200,
          (error: { status: { statusCode: number } }) => error.status.statusCode,
        );
    expect(await status(user, up)).toBe(200);
    expect(await status(user, `${meshRoom.ring.join.room}.down`)).toBe(403);
    expect(await status(user, "leafmesh.another.up")).toBe(403);
    expect(await status("somebody-else", up)).toBe(403);
  });

  it("is refused when its token is not known, or nobody answers in time", async () => {
    const { double, meshRoom } = await open();
    const { ring } = meshRoom;
    const other = { ...ring, join: { ...ring.join, token: "qEF2AkF0AAAA" } };
    const join = (of: typeof ring, signal: AbortSignal = patient) =>
      joinErrorOf(pubnubConnector({ pubnub: PubNub }).join(of, { signal }));
    expect(await join(other)).toMatchObject({ kind: "over" });
    double.refuse("subscribe", PUBNUB_REFUSALS.trouble);
    expect(await join(ring, AbortSignal.timeout(300))).toMatchObject({ kind: "unreachable" });
  });

  it("does not go to an address that is none", async () => {
    const { meshRoom } = await open();
    const { ring } = meshRoom;
    for (const join of [
      { ...ring.join, url: "https://evil.example/x?" },
      { ...ring.join, token: undefined },
      { ...ring.join, params: {} },
    ]) {
      const attempt = pubnubConnector({ pubnub: PubNub }).join({ ...ring, join }, { signal: patient });
      expect(await joinErrorOf(attempt)).toMatchObject({ kind: "unsupported" });
    }
  });
});
