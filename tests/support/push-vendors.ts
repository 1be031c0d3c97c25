/** One entry a push provider: its double, and what a mesh and a device need to use it. */
import { createECDH, generateKeyPairSync, type KeyObject } from "node:crypto";
import { systemClock } from "@leafmesh/protocol";
import {
  awsQueryRefusal,
  fcmRefusal,
  hmsAnswer,
  iotHubRefusal,
  playBrowser,
  startApns,
  startAwsIot,
  startAzureIotHub,
  startAzureNotificationHubs,
  startExpo,
  startFcm,
  startHms,
  startOneSignal,
  startPusherBeams,
  startSns,
  startTwilioSms,
  startWebPush,
  startWns,
  type VendorReply,
  webPushRefusal,
} from "@leafmesh/testkit/notifiers";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import { startExamplePush } from "../../packages/notifiers/testing/example-push-double.ts";

export interface PushVendor {
  readonly provider: string;
  /** Starts the double with the real clock. */
  open(): Promise<{
    readonly double: NotifierDouble;
    /** Fields of the connection record. Strings are written into mesh.yaml as JSON, which YAML reads. */
    readonly record: Readonly<Record<string, unknown>>;
  }>;
  readonly pushToken: string;
  /** The code in what the device got, for a vendor that brings a link instead of the ring. */
  readonly codeIn?: (received: string) => string;
  /** What the vendor answers about a dead token; left out where it never says so. */
  readonly deadToken?: VendorReply;
}

const SNS_PHONE = "arn:aws:sns:eu-west-1:123456789012:endpoint/GCM/my-app/5e3e9847-3183-3f18-a7e8-671c3a57d4b3";
const APPLE_PHONE = "a1b2c3d4".repeat(8);
const ANDROID_PHONE = "dGhlLXBob25l:APA91bH-xyz_0123456789";
const HUAWEI_PHONE = "IQAAAACy0kYwAADj-QmzTfXy_0123456789";
const SUBSCRIPTION = "5fb6a1d2-7c3e-4b1f-9a8d-0c2e4f6a8b1d";
const EXPO_PHONE = "ExponentPushToken[xY7-qLr_2mKdPz0aB3cD4e]";

const WINDOWS_PHONE = "https://db5.notify.windows.com/w/?token=BQYAAADdW%2bkFq%2f3d%3d";

const vapid = createECDH("prime256v1");
const BROWSER = playBrowser({
  endpoint: "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABl-browser",
  applicationServerKey: vapid.generateKeys("base64url"),
});

export const pushVendors: readonly PushVendor[] = [
  {
    provider: "example_push",
    async open() {
      const double = await startExamplePush(systemClock, { id: "my-app", key: "the-key-of-my-app" });
      return { double, record: { app_id: "my-app", app_key: "the-key-of-my-app" } };
    },
    pushToken: "dev-0123456789abcdef",
    deadToken: { status: 404, body: { error: "unregistered" } },
  },
  {
    provider: "fcm",
    async open() {
      const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
      const serviceAccount = JSON.stringify({
        ...{ type: "service_account", project_id: "my-app-1a2b3", private_key_id: "the-id-of-the-key" },
        private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
        client_email: "mesh@my-app-1a2b3.iam.gserviceaccount.com",
      });
      const tokens = { [ANDROID_PHONE]: "there" } as const;
      const double = await startFcm(systemClock, { serviceAccount, projectId: "my-app-1a2b3", tokens });
      return { double, record: { service_account: serviceAccount } };
    },
    pushToken: ANDROID_PHONE,
    deadToken: fcmRefusal(404, "NOT_FOUND", { errorCode: "UNREGISTERED" }),
  },
  {
    provider: "hms",
    async open() {
      const app = { clientId: "104567890", clientSecret: "the-secret-of-the-app", tokens: [HUAWEI_PHONE] };
      const double = await startHms(systemClock, app);
      return { double, record: { client_id: app.clientId, client_secret: app.clientSecret } };
    },
    pushToken: HUAWEI_PHONE,
    deadToken: hmsAnswer("80100000", '{"illegal_tokens":["one"]}'),
  },
  {
    provider: "webpush",
    async open() {
      const vapid_private_key = vapid.getPrivateKey("base64url").padStart(43, "A");
      const double = await startWebPush(systemClock, [BROWSER]);
      return { double, record: { vapid_private_key, contact: "mailto:ops@example.com" } };
    },
    pushToken: BROWSER.subscription,
    deadToken: webPushRefusal(410, 106, "Invalid subscription"),
  },
  {
    provider: "wns",
    async open() {
      const app = {
        tenantId: "5e3e9847-3183-4f18-a7e8-671c3a57d4b3",
        clientId: "0b1c2d3e-4f50-4617-8293-a4b5c6d7e8f9",
        clientSecret: "aB8~the.secret_of.the-application",
      };
      const double = await startWns(systemClock, { app, channels: { [WINDOWS_PHONE]: "open" } });
      const record = { client_secret: app.clientSecret, tenant_id: app.tenantId, client_id: app.clientId };
      return { double, record };
    },
    pushToken: WINDOWS_PHONE,
    deadToken: { status: 410, headers: { "x-wns-error-description": "Channel expired" } },
  },
  {
    provider: "azure_notification_hubs",
    async open() {
      const host = "phones-of-acme.servicebus.windows.net";
      const key = "a2V5IG9mIHRoZSBwb2xpY3kgdGhhdCBtYXkgc2VuZA==";
      const policies = { Ring: { key, rights: ["Send"] } } as const;
      const double = await startAzureNotificationHubs(systemClock, { host, hub: "phones", policies });
      const parts = [`Endpoint=sb://${host}/`, "SharedAccessKeyName=Ring", `SharedAccessKey=${key}`];
      return { double, record: { connection_string: parts.join(";"), hub_name: "phones", payload_format: "apple" } };
    },
    pushToken: "0123456789abcdef".repeat(4),
  },
  {
    provider: "azure_iot_hub",
    async open() {
      const host = "things-of-acme.azure-devices.net";
      const key = "a2V5IG9mIHRoZSBwb2xpY3kgdGhhdCBtYXkgY2FsbCE=";
      const policies = { service: { key, rights: ["ServiceConnect"] } } as const;
      const double = await startAzureIotHub(systemClock, { host, policies, devices: { "kiosk-in-the-hall": 200 } });
      const connection_string = `HostName=${host};SharedAccessKeyName=service;SharedAccessKey=${key}`;
      return { double, record: { connection_string } };
    },
    pushToken: "kiosk-in-the-hall",
    deadToken: iotHubRefusal(404, 404001, "NotFound"),
  },
  {
    provider: "aws_iot",
    async open() {
      const endpoint = "a1b2c3d4e5-ats.iot.eu-west-1.amazonaws.com";
      const rights = ["iot:Publish:leafmesh/*/connect"] as const;
      const keys = { AKIAIOSFODNN7EXAMPLE: { secret: "s3cr3t/+".repeat(5), rights } };
      const double = await startAwsIot(systemClock, { host: endpoint, region: "eu-west-1", keys });
      const record = { endpoint, access_key_id: "AKIAIOSFODNN7EXAMPLE" };
      return { double, record: { ...record, secret_access_key: keys.AKIAIOSFODNN7EXAMPLE.secret } };
    },
    pushToken: "leafmesh/kiosk-in-the-lobby/connect",
  },
  {
    provider: "sns",
    async open() {
      const keys = { AKIAIOSFODNN7EXAMPLE: { secret: "s3cr3t/+".repeat(5), rights: ["sns:Publish"] } } as const;
      const double = await startSns(systemClock, {
        ...{ region: "eu-west-1", account: "123456789012", keys, applications: ["GCM/my-app"] },
        endpoints: { [SNS_PHONE]: "enabled" },
      });
      const record = { region: "eu-west-1", access_key_id: "AKIAIOSFODNN7EXAMPLE" };
      return { double, record: { ...record, secret_access_key: keys.AKIAIOSFODNN7EXAMPLE.secret } };
    },
    pushToken: SNS_PHONE,
    deadToken: awsQueryRefusal(400, "EndpointDisabled", "Endpoint is disabled"),
  },
  {
    provider: "twilio_sms",
    async open() {
      const sid = `AC${"0123456789abcdef".repeat(2)}`;
      const double = await startTwilioSms({ sid, authToken: "the-auth-token", numbers: ["+15005550006"] });
      const link = "https://go.example.com/ask";
      return { double, record: { account_sid: sid, from: "+15005550006", link, auth_token: "the-auth-token" } };
    },
    pushToken: "+15558675310",
    codeIn: (text) => text.slice(text.lastIndexOf("/") + 1),
    deadToken: {
      status: 400,
      body: { code: 21610, message: "Attempt to send to unsubscribed recipient", status: 400 },
    },
  },
  {
    provider: "apns",
    async open() {
      const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const double = await startApns(systemClock, {
        keys: [{ keyId: "KEY1234567", teamId: "TEAM123456", publicKey: pem(publicKey, "spki") }],
        topics: ["com.example.phone"],
        devices: { [APPLE_PHONE]: { environment: "sandbox", topic: "com.example.phone" } },
      });
      const ids = { key_id: "KEY1234567", team_id: "TEAM123456", bundle_id: "com.example.phone", sandbox: true };
      return { double, record: { signing_key: pem(privateKey, "pkcs8"), ...ids } };
    },
    pushToken: APPLE_PHONE,
    deadToken: { status: 410, body: { reason: "Unregistered", timestamp: 1_790_000_000_000 } },
  },
  {
    provider: "pusher_beams",
    async open() {
      const instance = { instanceId: "8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a", primaryKey: "4D5C1B0A99E8F7D6" };
      const double = await startPusherBeams(systemClock, { ...instance, users: ["beams-user-7"] });
      return { double, record: { instance_id: instance.instanceId, primary_key: instance.primaryKey } };
    },
    pushToken: "beams-user-7",
  },
  {
    provider: "onesignal",
    async open() {
      const [appId, apiKey] = ["8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a", "the-api-key-of-the-app"];
      const double = await startOneSignal({ appId, apiKeys: [apiKey], subscribed: [SUBSCRIPTION] });
      return { double, record: { app_api_key: apiKey, app_id: appId } };
    },
    pushToken: SUBSCRIPTION,
    deadToken: { status: 200, body: { id: "", errors: ["All included players are not subscribed"] } },
  },
  {
    provider: "expo",
    async open() {
      const project = "@acme/phones";
      const double = await startExpo(systemClock, {
        devices: { [EXPO_PHONE]: project },
        accessTokens: { "the-token-of-a-robot": [project] },
        secured: [project],
      });
      return { double, record: { access_token: "the-token-of-a-robot" } };
    },
    pushToken: EXPO_PHONE,
    deadToken: {
      status: 200,
      body: {
        data: {
          status: "error",
          message: `"${EXPO_PHONE}" is not a registered push notification recipient`,
          details: { error: "DeviceNotRegistered", expoPushToken: EXPO_PHONE },
        },
      },
    },
  },
];

function pem(key: KeyObject, type: "spki" | "pkcs8"): string {
  return key.export({ format: "pem", type }).toString();
}
