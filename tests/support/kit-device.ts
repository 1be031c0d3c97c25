/** A device in this process, made with the kit, that keeps a journal of what it did: for many asks at once. */
import { connectDirect, createDevice, createMemoryLedger, directAddress, type TaskHandler } from "@leafmesh/device";

export interface KitDevice {
  /** Ask ids in the order in which they were acted on. */
  readonly acted: readonly string[];
  close(): Promise<void>;
}

export interface KitDeviceOptions {
  readonly id: string;
  readonly token: string;
  /** Most asks at once. */
  readonly maxAsks?: number;
  /** What it does with `battery.read`; answers at once unless given. */
  readonly handler?: TaskHandler;
}

/** Resolves when the mesh can ring it. */
export async function startKitDevice(meshUrl: string, options: KitDeviceOptions): Promise<KitDevice> {
  const acted: string[] = [];
  const { handler = () => ({ level: 71 }) } = options;
  const device = createDevice({
    id: options.id,
    handlers: {
      "battery.read": (task) => {
        acted.push(task.ask);
        return handler(task);
      },
    },
    approve: () => true,
    ledger: createMemoryLedger(),
    maxAsks: options.maxAsks,
    stopWithinMs: 100,
  });
  const direct = connectDirect({
    url: directAddress(meshUrl),
    id: options.id,
    token: options.token,
    onRing: (ring) => void device.handleRing(ring, "direct"),
    random: () => 0,
  });
  await direct.ready();
  return {
    acted,
    async close() {
      direct.close();
      await device.close();
    },
  };
}
