/** Reasons that no provider of today gives on demand, through providers that fail as they are told. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadMeshFile } from "@leafmesh/core/config";
import { createLogger } from "@leafmesh/core/security";
import { defineNotifier, type NotifierDefinition, RingError, type RingErrorKind } from "@leafmesh/notifiers/contract";
import { type AskResult, type MeshReply, systemClock } from "@leafmesh/protocol";
import { defineRoom, RoomError, type RoomErrorKind } from "@leafmesh/rooms/contract";
import { type ProviderDefinitions, providerRegistry, type RunningMesh, startMesh } from "leafmesh";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { newFolder } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";

const ringFault = (): RingErrorKind => wanted.ring;
const roomFault = (): RoomErrorKind => wanted.room;
const wanted: { ring: RingErrorKind; room: RoomErrorKind } = { ring: "transient", room: "unavailable" };

const notifier = defineNotifier({
  provider: "faulty_rings",
  title: "Rings that fail",
  description: "For tests.",
  options: z.strictObject({}),
  pushToken: z.string().regex(/^token-/),
  traits: { maxBytes: 4096, ttl: true, collapse: true, silent: "yes", link: false, deadTokens: false },
  docs: { setUp: [], pushToken: "anything", onTheDevice: "Joins.", check: "Nothing.", goodToKnow: [], links: [] },
  create: () => ({
    ring: () => Promise.reject(new RingError(ringFault(), "told to fail", { code: "T1" })),
    check: () => Promise.resolve({ status: "active" }),
    close: () => Promise.resolve(),
  }),
});

const rooms = defineRoom({
  provider: "faulty_rooms",
  title: "Rooms that fail",
  description: "For tests.",
  options: z.strictObject({}),
  traits: {
    ...{ credential: "none", joinSignal: "none", lossSeenWithinMs: 0, maxTaskBytes: 1024 },
    ...{ setUp: [], checkProves: "nothing" },
  },
  create: () => ({
    open: () => Promise.reject(new RoomError(roomFault(), "told to fail")),
    check: () => Promise.resolve({ status: "active" }),
    close: () => Promise.resolve(),
  }),
});

const YAML = `name: injected
connections:
  rings: { provider: faulty_rings }
  rooms: { provider: faulty_rooms }
agents:
  rung: { model: test/any, prompt: Do as you are told., device: { connection: rings, join_timeout: 2 } }
  roomless: { model: test/any, prompt: Do as you are told., device: { connection: rings, room: rooms, join_timeout: 2 } }
entry_points:
  - { name: rung, target: rung }
  - { name: roomless, target: roomless }
`;

let model: ObedientModel;
let mesh: RunningMesh;

beforeAll(async () => {
  model = await startObedientModel();
  const providers: ProviderDefinitions = {
    notifiers: new Map<string, NotifierDefinition>([[notifier.provider, notifier]]),
    rooms: new Map([[rooms.provider, rooms]]),
  };
  const registry = await providerRegistry(providers);
  const folder = newFolder();
  writeFileSync(join(folder, "mesh.yaml"), model.yaml + YAML);
  const loaded = loadMeshFile("mesh.yaml", { registry, env: {}, cwd: folder, knownConnections: new Map() });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.diagnostics));
  const logger = createLogger({ level: "silent", stream: process.stderr, format: "json", clock: systemClock });
  mesh = await startMesh({ mesh: loaded.mesh, host: "127.0.0.1", port: 0, env: {}, logger, providers });
});

afterAll(async () => {
  await mesh.stop(0);
  await model.close();
});

async function ask(entryPoint: string, pushToken = "token-1"): Promise<{ result: AskResult; session: string }> {
  const response = await fetch(`${mesh.url}/api/mesh/request`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      message: callFor({ action: "battery.read", inputs: {} }),
      entry_point: entryPoint,
      device: { id: "phone-7", push_token: pushToken },
    }),
  });
  const reply = (await response.json()) as MeshReply;
  return { result: resultsIn(reply.reply)[0] as AskResult, session: reply.session_id };
}

describe("a notifier that fails", () => {
  it.each<[RingErrorKind, Partial<AskResult>]>([
    ["dead_token", { outcome: "unreachable", reason: "dead_token" }],
    ["offline", { outcome: "not_joined", reason: "device_offline" }],
    ["bad_credential", { outcome: "unreachable", reason: "notifier_key_refused" }],
    ["quota", { outcome: "unreachable", reason: "notifier_quota" }],
    ["transient", { outcome: "unreachable", reason: "notifier_unavailable" }],
    ["bad_request", { outcome: "unreachable", reason: "notifier_rejected" }],
    ["too_big", { outcome: "unreachable", reason: "notifier_rejected" }],
  ])("with %s reads %j", async (kind, expected) => {
    wanted.ring = kind;
    expect((await ask("rung")).result).toMatchObject(expected);
  });

  it("whose token is dead tells the app, so that it can forget it", async () => {
    wanted.ring = "dead_token";
    const { session } = await ask("rung");
    const events = await mesh.backend.events(session, { types: ["device.token_dead"] });
    expect(events.map(({ payload }) => payload)).toEqual([{ device: "phone-7", notifier: "rings" }]);
  });

  it("gets no token of another shape", async () => {
    expect((await ask("rung", "nonsense")).result).toMatchObject({ outcome: "unreachable", reason: "bad_token" });
  });
});

describe("a room service that fails", () => {
  it.each<[RoomErrorKind, Partial<AskResult>]>([
    ["bad_credential", { outcome: "unreachable", reason: "room_key_refused" }],
    ["plan_limit", { outcome: "unreachable", reason: "room_plan_limit" }],
    ["rate", { outcome: "unreachable", reason: "room_unavailable" }],
    ["unavailable", { outcome: "unreachable", reason: "room_unavailable" }],
    ["mismatch", { outcome: "unreachable", reason: "room_unavailable" }],
  ])("with %s reads %j", async (kind, expected) => {
    wanted.room = kind;
    expect((await ask("roomless")).result).toMatchObject(expected);
  });
});
