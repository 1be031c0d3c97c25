import { startMosquitto } from "@leafmesh/testkit/mosquitto";

export interface Broker {
  readonly url: string;
  readonly meshPassword: string;
  readonly devicePassword: string;
  /** Connections stay, and nothing is answered. */
  freeze(): void;
  thaw(): void;
  close(): Promise<void>;
}

/** The mesh may do everything below its prefix; a device is rung under its login and meets in any room. */
const ACL = [
  "user mesh",
  "topic readwrite leafmesh/#",
  "pattern read leafmesh/%u/+/connect",
  "pattern readwrite leafmesh/room/#",
  "",
].join("\n");

/** Mosquitto with a login for the mesh and one for each of `devices`. */
export async function startBroker(options: {
  readonly meshPassword: string;
  readonly devices: readonly string[];
}): Promise<Broker> {
  const devicePassword = "device-broker-password";
  const { meshPassword, devices } = options;
  const process = await startMosquitto({
    users: { mesh: meshPassword, ...Object.fromEntries(devices.map((login) => [login, devicePassword])) },
    acl: ACL,
  });
  const { url, freeze, thaw } = process;
  return { url, meshPassword, devicePassword, freeze, thaw, close: () => process.stop() };
}
