/** The vendors whose doubles are rung: how each is played, and the two that ring it, with the same payload. */
import { createECDH, generateKeyPairSync, type KeyObject } from "node:crypto";
import { vendorNotifiers } from "@leafmesh/notifiers";
import type { Notifier } from "@leafmesh/notifiers/contract";
import { type Network, type Ring, randomId, Secret, silentLogger, systemClock } from "@leafmesh/protocol";
import { playBrowser, startApns, startFcm, startPusherBeams, startWebPush } from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";

/** Plain data: it goes to another process. */
export interface Opened {
  readonly record: Readonly<Record<string, string>>;
  readonly pushToken: string;
}

/** Rings once; rejects when the vendor does not take it. */
export interface Sender {
  ring(): Promise<void>;
  close(): Promise<void>;
}

export interface Vendor {
  readonly peerName: string;
  play(): Promise<Opened & { readonly double: NotifierDouble }>;
  /** The vendor's own client, or the best kept one. Its connections have been led to the double already. */
  peer(opened: Opened): Promise<Sender>;
}

const TTL_MS = 60_000;
const COLLAPSE_KEY = "ask_0123456789abcdefghijklmnopq";

export const vendors = {
  fcm: {
    peerName: "firebase-admin",
    async play() {
      const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
      const [projectId, pushToken] = ["my-app-1a2b3", `the-token-of-a-phone:${"a".repeat(120)}`];
      const serviceAccount = JSON.stringify({
        type: "service_account",
        project_id: projectId,
        private_key_id: "the-id-of-the-key",
        private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
        client_email: "mesh@my-app-1a2b3.iam.gserviceaccount.com",
      });
      const double = await startFcm(systemClock, { serviceAccount, projectId, tokens: { [pushToken]: "there" } });
      return { double, pushToken, record: { service_account: serviceAccount } };
    },
    async peer({ record: { service_account = "" }, pushToken }) {
      const { firebaseMessaging } = await import("./firebase-admin.ts");
      const messaging = firebaseMessaging(service_account);
      return {
        async ring() {
          const { body } = aRing();
          const shown = { title: "bench", body: "Allow this connection?" };
          const expiration = String(Math.ceil((Date.now() + TTL_MS) / 1000));
          await messaging.send({
            token: pushToken,
            data: { leafmesh: body, ...shown },
            android: { priority: "HIGH", ttl: TTL_MS, collapseKey: COLLAPSE_KEY },
            apns: {
              headers: {
                "apns-push-type": "alert",
                "apns-priority": "10",
                "apns-expiration": expiration,
                "apns-collapse-id": COLLAPSE_KEY,
              },
              payload: { aps: { alert: shown, category: "LEAF_ALLOW", sound: "default" } },
            },
            webpush: { headers: { TTL: String(TTL_MS / 1000), Urgency: "high", Topic: COLLAPSE_KEY } },
          });
        },
        close: async () => {},
      };
    },
  },
  apns: {
    peerName: "@parse/node-apn",
    async play() {
      const pem = (key: KeyObject, type: "spki" | "pkcs8") => key.export({ format: "pem", type }).toString();
      const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const [topic, pushToken] = ["com.example.phone", "0a1b2c3d".repeat(8)];
      const double = await startApns(systemClock, {
        keys: [{ keyId: "KEY1234567", teamId: "TEAM123456", publicKey: pem(publicKey, "spki") }],
        topics: [topic],
        devices: { [pushToken]: { environment: "production", topic } },
      });
      const ids = { key_id: "KEY1234567", team_id: "TEAM123456", bundle_id: topic };
      return { double, pushToken, record: { signing_key: pem(privateKey, "pkcs8"), ...ids } };
    },
    async peer({ record: { signing_key = "", key_id = "", team_id = "", bundle_id = "" }, pushToken }) {
      const { Notification, Provider } = await import("@parse/node-apn");
      const token = { key: Buffer.from(signing_key), keyId: key_id, teamId: team_id };
      const provider = new Provider({ token, production: true });
      return {
        async ring() {
          const { body } = aRing();
          const notification = new Notification();
          notification.topic = bundle_id;
          notification.pushType = "alert";
          notification.priority = 10;
          notification.expiry = Math.ceil((Date.now() + TTL_MS) / 1000);
          notification.collapseId = COLLAPSE_KEY;
          notification.aps = {
            alert: { title: "bench", body: "Allow this connection?" },
            category: "LEAF_ALLOW",
            sound: "default",
          };
          notification.payload = { leafmesh: body };
          const { failed } = await provider.send(notification, pushToken);
          const [failure] = failed;
          if (failure)
            throw new Error(`not taken: ${failure.status} ${failure.response?.reason} ${failure.error?.message}`);
        },
        close: async () => void (await provider.shutdown()),
      };
    },
  },
  webpush: {
    peerName: "web-push",
    async play() {
      const vapid = createECDH("prime256v1");
      const applicationServerKey = vapid.generateKeys("base64url");
      const browser = playBrowser({ endpoint: "https://web.push.apple.com/phone", applicationServerKey });
      const double = await startWebPush(systemClock, [browser]);
      const vapid_private_key = Buffer.from(vapid.getPrivateKey("hex").padStart(64, "0"), "hex").toString("base64url");
      const record = { vapid_private_key, contact: "mailto:ops@example.com" };
      return { double, pushToken: browser.subscription, record };
    },
    async peer({ record: { vapid_private_key = "", contact = "" }, pushToken }) {
      const { default: webPush } = await import("web-push");
      const vapid = createECDH("prime256v1");
      vapid.setPrivateKey(vapid_private_key, "base64url");
      const publicKey = vapid.getPublicKey("base64url");
      const vapidDetails = { subject: contact, publicKey, privateKey: vapid_private_key };
      const subscription = JSON.parse(pushToken);
      return {
        async ring() {
          const options = { TTL: TTL_MS / 1000, topic: COLLAPSE_KEY, urgency: "high", vapidDetails } as const;
          await webPush.sendNotification(subscription, aRing().body, options);
        },
        close: async () => {},
      };
    },
  },
  pusher_beams: {
    peerName: "@pusher/push-notifications-server",
    async play() {
      const instance = { instanceId: "8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a", primaryKey: "4D5C1B0A99E8F7D6" };
      const double = await startPusherBeams(systemClock, { ...instance, users: ["phone-7"] });
      const record = { instance_id: instance.instanceId, primary_key: instance.primaryKey };
      return { double, pushToken: "phone-7", record };
    },
    async peer({ record: { instance_id = "", primary_key = "" }, pushToken }) {
      const { default: PushNotifications } = await import("@pusher/push-notifications-server");
      const client = new PushNotifications({ instanceId: instance_id, secretKey: primary_key });
      const shown = { title: "bench", body: "Allow this connection?" };
      return {
        async ring() {
          const { body } = aRing();
          const expiration = Math.ceil((Date.now() + TTL_MS) / 1000);
          const time_to_live = TTL_MS / 1000;
          await client.publishToUsers([pushToken], {
            fcm: { priority: "high", time_to_live, collapse_key: COLLAPSE_KEY, data: { leafmesh: body, ...shown } },
            apns: {
              priority: 10,
              expiration,
              collapse_id: COLLAPSE_KEY,
              aps: { alert: shown, category: "LEAF_ALLOW", sound: "default" },
              data: { leafmesh: body },
            },
            web: { time_to_live, notification: shown, data: { leafmesh: body } },
          });
        },
        close: async () => {},
      };
    },
  },
} as const satisfies Readonly<Record<string, Vendor>>;

export type VendorName = keyof typeof vendors;

/** The adapter as the mesh uses it. */
export async function ours(name: VendorName, { record, pushToken }: Opened, network: Network): Promise<Sender> {
  const definition = await vendorNotifiers[name]?.();
  if (!definition) throw new Error(`nothing rings through ${name}`);
  const notifier: Notifier = definition.create(definition.options.parse(record), {
    clock: systemClock,
    logger: silentLogger,
    newId: randomId,
    scope: { share: (_key, make) => make() },
    network,
  });
  const to = new Secret(pushToken);
  const never = new AbortController().signal;
  return {
    async ring() {
      const request = { ...aRing(), collapseKey: COLLAPSE_KEY, ttlMs: TTL_MS, approval: "ask" } as const;
      await notifier.ring(request, to, never);
    },
    close: () => notifier.close(),
  };
}

/** A ring of the size that rings have, made anew each time as the mesh makes it. */
function aRing(): { readonly ring: Ring; readonly body: string } {
  const iat = Math.floor(Date.now() / 1000);
  const ring: Ring = {
    v: 1,
    ask: COLLAPSE_KEY,
    device: "phone-7",
    approval: "ask",
    mesh: "bench",
    iat,
    exp: iat + TTL_MS / 1000,
    join: { provider: "leafmesh", url: "wss://mesh.example.com/v1/connect", room: "room-1", token: "j".repeat(300) },
    kid: "key-1",
    sig: "s".repeat(86),
  };
  return { ring, body: JSON.stringify(ring) };
}
