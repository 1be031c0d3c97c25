/** The devices of a conversation as they are stored: merged by id, push tokens sealed. */
import { type KnownDevice, MAX_DEVICES_PER_CONVERSATION } from "@leafmesh/protocol";
import { EngineError } from "../runs/engine-error.ts";
import type { Sealer } from "../security/sealer.ts";
import type { DeviceRecord } from "../storage/contract.ts";
import type { ConversationDevice } from "./devices.ts";

/** A device as a request brings it, its push token wrapped. */
export type DeviceInput = ConversationDevice;

/** What a sealed push token is bound to. */
export function pushTokenContext(sessionId: string, deviceId: string): string {
  return `push_token:${sessionId}:${deviceId}`;
}

/**
 * The list after a request: a device that is there already is replaced in its place, a new one is added at the end,
 * and an empty list clears. Throws {@link EngineError} `duplicate_device` or `too_many_devices`.
 */
export function mergeDevices(
  stored: readonly DeviceRecord[],
  given: readonly DeviceInput[],
  sessionId: string,
  sealer: Sealer,
): readonly DeviceRecord[] {
  if (given.length === 0) return [];
  const ids = new Set(given.map((device) => device.id));
  if (ids.size < given.length) throw duplicate(given);
  const size = stored.filter((device) => !ids.has(device.id)).length + given.length;
  if (size > MAX_DEVICES_PER_CONVERSATION) {
    throw new EngineError(
      "too_many_devices",
      `A conversation has at most ${MAX_DEVICES_PER_CONVERSATION} devices and would have ${size}. Send an empty list first to start over.`,
    );
  }
  const merged = new Map(stored.map((device) => [device.id, device]));
  for (const device of given) merged.set(device.id, toRecord(device, sessionId, sealer));
  return [...merged.values()];
}

/** A device as everyone but the notifier sees it. */
export function knownDevice({ id, name, platform, capabilities }: DeviceRecord): KnownDevice {
  return {
    id,
    ...(name === undefined ? {} : { name }),
    ...(platform === undefined ? {} : { platform }),
    ...(capabilities === undefined ? {} : { capabilities: [...capabilities] }),
  };
}

function toRecord({ id, name, platform, capabilities, pushToken }: DeviceInput, sessionId: string, sealer: Sealer) {
  const sealedPushToken = sealer.seal(pushToken.reveal(), pushTokenContext(sessionId, id));
  return { sessionId, id, name, platform, capabilities, sealedPushToken };
}

function duplicate(given: readonly DeviceInput[]): EngineError {
  const twice = given.find(({ id }, index) => given.findIndex((other) => other.id === id) < index);
  return new EngineError("duplicate_device", `The device ${twice?.id} is in the list twice. Send each device once.`);
}
