/** What every test of the suite begins with: a service, a mesh on it, and a device in a room. */
import { inspect } from "node:util";
import { type Clock, type JoinInfo, type Logger, systemClock } from "@leafmesh/protocol";
import { expect, onTestFinished } from "vitest";
import type { RoomServiceUnderTest, SuiteDeviceEvent, SuiteDeviceRoom } from "./harness.ts";
import { Mailbox } from "./mailbox.ts";
import { type MeshRoom, patient, type RoomMesh, startRoomMesh } from "./mesh.ts";

export interface World {
  readonly service: RoomServiceUnderTest;
  readonly mesh: RoomMesh;
  /** Looked through for secrets when the test is over, with everything that was logged. */
  readonly printed: string[];
}

export interface Joined {
  readonly room: SuiteDeviceRoom;
  readonly events: Mailbox<SuiteDeviceEvent>;
}

export interface Stage {
  world(): Promise<World>;
  join(world: Pick<World, "service">, meshRoom: Pick<MeshRoom, "ring">): Promise<Joined>;
  /** A device in a room that the mesh has seen. */
  meeting(): Promise<World & { readonly meshRoom: MeshRoom; readonly device: Joined }>;
}

const CAPABILITIES = [{ name: "battery.read" }];
export const hasty: Clock = { ...systemClock, schedule: (afterMs, run) => systemClock.schedule(afterMs / 50, run) };

export function createStage(start: () => Promise<RoomServiceUnderTest>, clock: Clock): Stage {
  const world = async (): Promise<World> => {
    const service = await start();
    const printed: string[] = [];
    const joins: JoinInfo[] = [];
    const mesh = startRoomMesh(service.definition, service.record, clock, recordingLogger(printed));
    onTestFinished(async () => {
      await mesh.close();
      await service.close();
      const secrets = [...service.secrets, ...joins.flatMap(credentialsIn)];
      expect(printed.filter((text) => secrets.some((secret) => text.includes(secret)))).toEqual([]);
    });
    const open: RoomMesh["open"] = async (...how) => {
      const meshRoom = await mesh.open(...how);
      joins.push(meshRoom.room.join);
      return meshRoom;
    };
    return { service, mesh: { ...mesh, open }, printed };
  };
  const join: Stage["join"] = async ({ service }, { ring }) => {
    const room = await service.connector().join(ring, { signal: patient, capabilities: CAPABILITIES });
    onTestFinished(() => room.leave("test over"));
    return { room, events: new Mailbox(room.events) };
  };
  const meeting: Stage["meeting"] = async () => {
    const both = await world();
    const meshRoom = await both.mesh.open();
    const device = await join(both, meshRoom);
    expect(await meshRoom.event("joined")).toEqual({ type: "joined", capabilities: CAPABILITIES });
    return { ...both, meshRoom, device };
  };
  return { world, join, meeting };
}

export function isTask(event: SuiteDeviceEvent): event is Extract<SuiteDeviceEvent, { type: "envelope" }> {
  return event.type === "envelope" && event.envelope.type === "task";
}

export function isClosed(event: SuiteDeviceEvent): event is Extract<SuiteDeviceEvent, { type: "closed" }> {
  return event.type === "closed";
}

/** Every task that came and was not taken. Ask when the device's events have ended. */
export async function tasksAfterTheEnd({ room, events }: Joined): Promise<readonly SuiteDeviceEvent[]> {
  await room.leave("test over");
  await events.ended;
  return events.takeAll().filter(isTask);
}

/** A test of something that not every provider can show; the title of one that is skipped says why. */
export function titleOf(title: string, why: string | undefined): string {
  return why === undefined ? title : `${title} — cannot be shown: ${why}`;
}

function recordingLogger(printed: string[]): Logger {
  const line = (message: string, fields?: unknown): void => {
    printed.push(`${message} ${inspect(fields, { depth: 8 })}`);
  };
  return { debug: line, info: line, warn: line, error: line };
}

/** What opens the room to whoever reads it. */
function credentialsIn({ token, params }: JoinInfo): readonly string[] {
  return [token, params?.key].filter((text) => text !== undefined);
}
