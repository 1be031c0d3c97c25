import { type RunningProcess, startLeafmesh } from "./process.ts";

export interface DeviceOptions {
  readonly id?: string;
  readonly token?: string;
  readonly behave?: string;
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
}

/** A simulated device in a process of its own, rung over the socket that it holds to the mesh. Ready when it resolves. */
export async function startDevice(meshUrl: string, options: DeviceOptions = {}): Promise<RunningProcess> {
  return ready(["--mesh-url", meshUrl, "--token", options.token ?? "token-of-phone-7"], options);
}

/** The same, rung over MQTT on its own topic. */
export async function startMqttDevice(broker: readonly string[], options: DeviceOptions = {}): Promise<RunningProcess> {
  return ready(broker, options);
}

async function ready(how: readonly string[], options: DeviceOptions): Promise<RunningProcess> {
  const device = startLeafmesh(
    [
      "device",
      ...how,
      ...["--id", options.id ?? "phone-7", "--behave", options.behave ?? "done", "--json"],
      ...(options.args ?? []),
    ],
    options.env,
  );
  await device.waitFor("ready");
  return device;
}
