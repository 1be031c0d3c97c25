/** Every notifier that needs nothing of this process. A new provider is a file in `providers/` and a line here. */
import type { NotifierDefinition } from "./contract.ts";
import { apnsNotifier } from "./providers/apns.ts";
import { azureIotHubNotifier } from "./providers/azure-iot-hub.ts";
import { azureNotificationHubsNotifier } from "./providers/azure-notification-hubs.ts";
import { mqttNotifier } from "./providers/mqtt.ts";
import { pusherBeamsNotifier } from "./providers/pusher-beams.ts";
import { twilioSmsNotifier } from "./providers/twilio-sms.ts";

/** In the order in which they are shown. */
export const vendorNotifiers: readonly NotifierDefinition[] = [
  mqttNotifier,
  apnsNotifier,
  azureNotificationHubsNotifier,
  azureIotHubNotifier,
  pusherBeamsNotifier,
  twilioSmsNotifier,
];
