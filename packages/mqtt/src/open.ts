/** Opening a link with the newest version of MQTT that the broker speaks. */
import { MqttFailure } from "./failure.ts";
import { type Link, type LinkDependencies, type LinkSettings, type MqttVersion, openLink } from "./link.ts";
import { UNSUPPORTED_PROTOCOL_VERSION } from "./reasons.ts";

export interface OpenSettings extends Omit<LinkSettings, "version"> {
  /** Start with this one; 5 unless an earlier link of this broker fell back. */
  readonly version: MqttVersion;
}

/**
 * Connects with MQTT 5, and once with 3.1.1 when the broker says that it does not know 5. `link.version` says which it
 * became, so that the caller can warn and start there the next time. Throws {@link MqttFailure}.
 */
export async function openNewestLink(
  settings: OpenSettings,
  dependencies: LinkDependencies,
  signal: AbortSignal,
): Promise<Link> {
  try {
    return await openLink(settings, dependencies, signal);
  } catch (error) {
    if (settings.version === 4 || !isVersionRefusal(error)) throw error;
    return await openLink({ ...settings, version: 4 }, dependencies, signal);
  }
}

/** For the log, once a connection: what is lost with a broker that speaks 3.1.1 alone. */
export const OLD_VERSION_WARNING =
  "The MQTT broker speaks only MQTT 3.1.1: forbidden messages vanish without an error, rings and tasks do not expire " +
  "in the broker, and a device that is offline is not told apart from one that is slow. Use a broker with MQTT 5.";

function isVersionRefusal(error: unknown): boolean {
  return error instanceof MqttFailure && UNSUPPORTED_PROTOCOL_VERSION.some((code) => error.code === String(code));
}
