export {
  type ApnsDouble,
  type AppleEnvironment,
  type AppleKey,
  type PlayedApple,
  type PlayedAppleDevice,
  startApns,
} from "./apns.ts";
export { type AwsIotRight, awsIotRefusal, type PlayedAwsIot, startAwsIot } from "./aws-iot.ts";
export { awsQueryRefusal, awsQueryResult } from "./aws-refusal.ts";
export type { PlayedAccessKey } from "./aws-signature.ts";
export {
  iotHubRefusal,
  namedIotHubRefusal,
  type PlayedDeviceState,
  type PlayedIotHub,
  startAzureIotHub,
} from "./azure-iot-hub.ts";
export {
  type NotificationHubDouble,
  notificationHubRefusal,
  type PlayedNotificationHub,
  startAzureNotificationHubs,
} from "./azure-notification-hubs.ts";
export { type ExpoDouble, type ExpoReceipt, type PlayedExpo, startExpo } from "./expo.ts";
export { type FcmDouble, type FcmRefusalDetails, fcmRefusal, type PlayedFirebase, startFcm } from "./fcm.ts";
export { type HmsDouble, hmsAnswer, hmsTokenRefusal, type PlayedHuaweiApp, startHms } from "./hms.ts";
export { type PlayedOneSignalApp, startOneSignal } from "./onesignal.ts";
export { type PlayedBrowser, type PlayedBrowserOptions, playBrowser } from "./played-browser.ts";
export { type PlayedBeamsInstance, startPusherBeams } from "./pusher-beams.ts";
export type { VendorFault, VendorReply } from "./replies.ts";
export { type PlayedSns, type SnsRight, startSns } from "./sns.ts";
export {
  startTwilioSms,
  type TwilioAccount,
  type TwilioKey,
  type TwilioSmsDouble,
  type TwilioText,
} from "./twilio-sms.ts";
export {
  joinNetworks,
  networkOf,
  type PlayedAddress,
  startVendorServer,
  type VendorRequest,
  type VendorServer,
  type VendorServerOptions,
} from "./vendor-server.ts";
export { startWebPush, webPushRefusal } from "./web-push.ts";
export { entraRefusal, type PlayedWindowsApp, type PlayedWns, startWns, type WnsDouble } from "./wns.ts";
