import { type Mosquitto, startMosquitto } from "@leafmesh/testkit/mosquitto";

export interface Broker {
  readonly url: string;
  readonly meshPassword: string;
  readonly devicePassword: string;
  readonly process: Mosquitto;
  close(): Promise<void>;
}

/** The rights that the shipped configuration gives: the mesh everything below its prefix, a device what bears its name. */
const ACL = [
  "user mesh",
  "topic readwrite leafmesh/#",
  "pattern read leafmesh/%u/connect",
  "pattern readwrite leafmesh/room/+/d/%u/#",
  "",
].join("\n");

/** Mosquitto with a login for the mesh and one for each device of the journeys. */
export async function startBroker(): Promise<Broker> {
  const meshPassword = "mesh-broker-password";
  const devicePassword = "device-broker-password";
  const process = await startMosquitto({
    users: { mesh: meshPassword, "phone-7": devicePassword, "tablet-2": devicePassword, intruder: devicePassword },
    acl: ACL,
  });
  return { url: process.url, meshPassword, devicePassword, process, close: () => process.stop() };
}
