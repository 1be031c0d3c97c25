import { type Logger, Secret } from "@leafmesh/protocol";
import type { Sealer } from "../security/sealer.ts";
import type { Backend, DeviceRecord } from "../storage/contract.ts";
import { pushTokenContext } from "./device-list.ts";
import type { ConversationDevice, DeviceDirectory } from "./devices.ts";

/** Reads a conversation's devices from the store. One whose push token does not open is left out, with a log line. */
export function createDeviceDirectory(backend: Backend, sealer: Sealer, logger: Logger): DeviceDirectory {
  const open = (record: DeviceRecord): ConversationDevice[] => {
    const { sessionId, id, name, platform, capabilities, sealedPushToken } = record;
    try {
      const pushToken = new Secret(sealer.open(sealedPushToken, pushTokenContext(sessionId, id)));
      return [{ id, name, platform, capabilities, pushToken }];
    } catch (error) {
      const message = "a push token does not open with the mesh's key; the app has to send the device again";
      logger.warn(message, { sessionId, device: id, error });
      return [];
    }
  };

  return {
    async list(sessionId) {
      return (await backend.devices(sessionId)).flatMap(open);
    },
  };
}
