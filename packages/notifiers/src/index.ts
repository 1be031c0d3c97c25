export {
  createDirectHub,
  DEFAULT_DIRECT_LIMITS,
  type DirectDelivery,
  type DirectHub,
  type DirectHubOptions,
  type DirectLimits,
  type DirectRing,
  type DirectRinger,
  hashDirectToken,
  type TokenHash,
} from "./direct/hub.ts";
export {
  type ClosedLink,
  createRingLinkHub,
  hashLinkCode,
  type LinkState,
  type LookedAtLink,
  type OpenedLink,
  type RingLinkHub,
} from "./links/ring-link-hub.ts";
export { directNotifier } from "./providers/direct.ts";
export { mqttNotifier } from "./providers/mqtt.ts";
export { twilioSmsNotifier } from "./providers/twilio-sms.ts";
export { vendorNotifiers } from "./vendor-notifiers.ts";
