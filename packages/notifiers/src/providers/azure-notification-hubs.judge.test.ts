/** Microsoft's own client takes the double for a hub, signed and worded as it does: so the double asks for what Azure asks. */
import { Agent, type AgentOptions } from "node:https";
import { connect } from "node:tls";
import {
  createAppleNotification,
  createFcmV1Notification,
  createTemplateNotification,
  type Notification,
  NotificationHubsClient,
} from "@azure/notification-hubs";
import { systemClock } from "@leafmesh/protocol";
import { type NotificationHubDouble, startAzureNotificationHubs } from "@leafmesh/testkit/notifiers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const HOST = "phones-of-acme.servicebus.windows.net";
const KEY = "a2V5IG9mIHRoZSBwb2xpY3kgdGhhdCBtYXkgc2VuZA==";

let double: NotificationHubDouble;
beforeAll(async () => {
  const policies = { Ring: { key: KEY, rights: ["Send"] } } as const;
  double = await startAzureNotificationHubs(systemClock, {
    host: HOST,
    hub: "phones",
    policies,
    installations: ["i-1"],
  });
});
afterAll(() => double.close());

/** Everything is the client's own but the socket. */
function client(key: string): NotificationHubsClient {
  const { ca, route } = double.server.network;
  class Led extends Agent {
    override createConnection(options: AgentOptions) {
      const { host, port } = route(HOST, 443) ?? {};
      return connect({ host, port, ca, servername: options.servername ?? HOST });
    }
  }
  const agent = new Led();
  const text = `Endpoint=sb://${HOST}/;SharedAccessKeyName=Ring;SharedAccessKey=${key}`;
  return new NotificationHubsClient(text, "phones", {
    additionalPolicies: [
      {
        position: "perCall",
        policy: {
          name: "led",
          sendRequest(request, next) {
            request.agent = agent;
            return next(request);
          },
        },
      },
    ],
  });
}

const firebase = createFcmV1Notification({
  body: JSON.stringify({ message: { data: { leafmesh: "1" }, android: { priority: "high", ttl: "60s" } } }),
});
const apple = createAppleNotification({
  body: JSON.stringify({ aps: { "content-available": 1 }, leafmesh: "2" }),
  headers: {
    "apns-push-type": "background",
    "apns-priority": "5",
    "apns-expiration": String(Math.floor(Date.now() / 1000) + 60),
    "apns-collapse-id": "ask-1",
  },
});
const template = createTemplateNotification({ body: { leafmesh: "3", ttl: "60s" } });

describe("the double of Azure Notification Hubs, by Microsoft's client", () => {
  it.each<[string, Notification, { deviceHandle: string } | { tagExpression: string }, string]>([
    ["a direct send to Firebase", firebase, { deviceHandle: "fcm-token" }, "fcm-token"],
    ["a direct send to Apple", apple, { deviceHandle: "ab".repeat(32) }, "ab".repeat(32)],
    ["a template to an installation", template, { tagExpression: "$InstallationId:{i-1}" }, "i-1"],
  ])("takes %s", async (_name, notification, options, to) => {
    const response = await client(KEY).sendNotification(notification, options);
    expect(response).toMatchObject({ state: "Enqueued", notificationId: expect.stringMatching(/^\d/) });
    expect(double.rings.at(-1)).toMatchObject({ to });
  });

  it("takes a template to a tag that nobody has, and rings nobody", async () => {
    const before = double.rings.length;
    await client(KEY).sendNotification(template, { tagExpression: "leafmesh-probe_1" });
    expect(double.unheard).toEqual(["leafmesh-probe_1"]);
    expect(double.rings).toHaveLength(before);
  });

  it("refuses another key", async () => {
    await expect(
      client("YW5vdGhlcg==").sendNotification(firebase, { deviceHandle: "fcm-token" }),
    ).rejects.toMatchObject({
      statusCode: 401,
      message: expect.stringContaining("InvalidSignature"),
    });
  });
});
