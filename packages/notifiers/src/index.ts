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
export { directNotifier } from "./providers/direct.ts";
export { mqttNotifier } from "./providers/mqtt.ts";
export { vendorNotifiers } from "./vendor-notifiers.ts";
