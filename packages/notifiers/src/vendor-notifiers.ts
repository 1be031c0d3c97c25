/**
 * Every notifier that needs nothing of this process, by its provider's name. Each is loaded when a mesh names it: a start
 * does not pay for the others. A new provider is a file in `providers/` and a line here.
 */
import type { NotifierDefinition } from "./contract.ts";

/** In the order in which they are shown. */
export const vendorNotifiers: Readonly<Record<string, () => Promise<NotifierDefinition>>> = {
  fcm: async () => (await import("./providers/fcm.ts")).fcmNotifier,
  mqtt: async () => (await import("./providers/mqtt.ts")).mqttNotifier,
  apns: async () => (await import("./providers/apns.ts")).apnsNotifier,
  hms: async () => (await import("./providers/hms.ts")).hmsNotifier,
  expo: async () => (await import("./providers/expo.ts")).expoNotifier,
  wns: async () => (await import("./providers/wns.ts")).wnsNotifier,
  onesignal: async () => (await import("./providers/onesignal.ts")).oneSignalNotifier,
  webpush: async () => (await import("./providers/webpush.ts")).webpushNotifier,
  azure_notification_hubs: async () =>
    (await import("./providers/azure-notification-hubs.ts")).azureNotificationHubsNotifier,
  azure_iot_hub: async () => (await import("./providers/azure-iot-hub.ts")).azureIotHubNotifier,
  aws_iot: async () => (await import("./providers/aws-iot.ts")).awsIotNotifier,
  sns: async () => (await import("./providers/sns.ts")).snsNotifier,
  pusher_beams: async () => (await import("./providers/pusher-beams.ts")).pusherBeamsNotifier,
  twilio_sms: async () => (await import("./providers/twilio-sms.ts")).twilioSmsNotifier,
};
