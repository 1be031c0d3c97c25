import PusherServer from "pusher";
import PusherClient from "pusher-js";
import { describe, expect, it, onTestFinished } from "vitest";
import { type PusherDouble, type PusherDoubleOptions, startPusherDouble } from "./server.ts";

/** Pusher's own two libraries judge the double. */
async function stage(options: PusherDoubleOptions = {}) {
  const double = await startPusherDouble(options);
  onTestFinished(() => double.close());
  return { double, server: serverOf(double) };
}

function serverOf({ app, host }: PusherDouble, secret = app.secret): PusherServer {
  const [name = "", port = ""] = host.split(":");
  return new PusherServer({ ...app, secret, host: name, port, useTLS: false });
}

const PusherClass = PusherClient as unknown as typeof PusherClient.default;

function clientOf({ app, host }: PusherDouble, server: PusherServer, userId: string) {
  const [wsHost = "", port = ""] = host.split(":");
  const client = new PusherClass(app.key, {
    ...{ cluster: "own", wsHost, wsPort: Number(port), forceTLS: false, enabledTransports: ["ws"] },
    channelAuthorization: {
      customHandler: ({ socketId, channelName }, callback) =>
        callback(null, server.authorizeChannel(socketId, channelName, { user_id: userId })),
    },
  });
  onTestFinished(() => client.disconnect());
  return client;
}

type Client = ReturnType<typeof clientOf>;

const next = (
  source: { bind(name: string, heard: (data: unknown, metadata?: unknown) => void): unknown },
  name: string,
) => new Promise<readonly unknown[]>((resolve) => void source.bind(name, (...heard) => resolve(heard)));

async function joined(client: Client, channel: string) {
  const subscribed = client.subscribe(channel);
  await next(subscribed, "pusher:subscription_succeeded");
  return subscribed;
}

describe("the double of Pusher", () => {
  it("takes what Pusher's server library signs, and brings it to Pusher's client", async () => {
    const { double, server } = await stage();
    const channel = await joined(clientOf(double, server, "one"), "presence-room");
    const heard = next(channel, "down");
    await server.trigger("presence-room", "down", { text: "Grüße" });
    expect((await heard)[0]).toEqual({ text: "Grüße" });
    const users = await server.get({ path: "/channels/presence-room/users" });
    expect(await users.json()).toEqual({ users: [{ id: "one" }] });
    const wrong = await serverOf(double, "wrong")
      .trigger("presence-room", "down", {})
      .catch((error) => error);
    expect(wrong).toMatchObject({ status: 401 });
    const large = { text: "x".repeat(10_240) };
    expect(await server.trigger("presence-room", "down", large).catch((error) => error)).toMatchObject({ status: 413 });
    expect(double.triggered).toHaveLength(1);
  });

  it("relays client events with the sender's signed id, ten in a second", async () => {
    const { double, server } = await stage();
    const [one, two] = [clientOf(double, server, "one"), clientOf(double, server, "two")];
    const hearing = await joined(one, "presence-room");
    const added = next(hearing, "pusher:member_added");
    const speaking = await joined(two, "presence-room");
    expect((await added)[0]).toMatchObject({ id: "two" });
    const heard = next(hearing, "client-up");
    const tooLarge = next(two.connection, "error");
    speaking.trigger("client-up", { text: "x".repeat(10_240) });
    expect((await tooLarge)[0]).toMatchObject({ data: { code: 4301 } });
    const fault = next(two.connection, "error");
    for (let count = 0; count < 11; count++) speaking.trigger("client-up", { count });
    expect(await heard).toEqual([{ count: 0 }, { user_id: "two" }]);
    expect((await fault)[0]).toMatchObject({ data: { code: 4301 } });
    expect(double.clientEvents).toHaveLength(10);
  });

  it("says when client events are off", async () => {
    const { double, server } = await stage({ clientEvents: false });
    const client = clientOf(double, server, "one");
    const channel = await joined(client, "presence-room");
    const fault = next(client.connection, "error");
    channel.trigger("client-up", {});
    expect((await fault)[0]).toMatchObject({ data: { message: expect.stringContaining("enable this feature") } });
  });

  it("keeps the last event of the server in a cache channel, and lets nobody in who is not signed for", async () => {
    const { double, server } = await stage();
    await server.trigger("presence-cache-room", "down", { number: 1 });
    await server.trigger("presence-cache-room", "down", { number: 2 });
    const client = clientOf(double, server, "one");
    const heard = next(client.subscribe("presence-cache-room"), "down");
    expect((await heard)[0]).toEqual({ number: 2 });
    const intruder = clientOf(double, serverOf(double, "wrong"), "two");
    const fault = next(intruder.connection, "error");
    intruder.subscribe("presence-cache-room");
    expect((await fault)[0]).toMatchObject({ data: { code: 4009 } });
    expect(double.users("presence-cache-room")).toEqual(["one"]);
  });

  it("sees a lost member go after a while, and one that leaves at once", async () => {
    const { double, server } = await stage({ lossSeenMs: 50 });
    const [one, two] = [clientOf(double, server, "one"), clientOf(double, server, "two")];
    const hearing = await joined(one, "presence-room");
    await joined(two, "presence-room");
    const removed = next(hearing, "pusher:member_removed");
    double.cut("two", { forGood: true });
    expect(double.users("presence-room")).toContain("two");
    expect((await removed)[0]).toMatchObject({ id: "two" });
  });
});
