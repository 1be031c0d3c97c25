/** `leafmesh/testing`: what an operator's own tests of their mesh stand on. */
export {
  createFakeClock,
  type FakeClock,
  type OpenAIServer,
  type OpenAIServerOptions,
  type ReceivedRequest,
  startOpenAIServer,
} from "@leafmesh/testkit";
export {
  joinNetworks,
  type NotificationHubDouble,
  networkOf,
  type PlayedAddress,
  type PlayedNotificationHub,
  startAzureNotificationHubs,
  startTwilioSms,
  startVendorServer,
  type TwilioAccount,
  type TwilioKey,
  type TwilioSmsDouble,
  type TwilioText,
  type VendorFault,
  type VendorReply,
  type VendorRequest,
  type VendorServer,
  type VendorServerOptions,
} from "@leafmesh/testkit/notifiers";
