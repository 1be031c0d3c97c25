/** Each of the seven outcomes, and each reason that can be brought about, through real processes. */
import type { AskResult, AskView, MeshReply } from "@leafmesh/protocol";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { DeviceOptions } from "../support/device.ts";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel, type Wanted } from "../support/model.ts";
import { killAll, type RunningProcess } from "../support/process.ts";
import { type Transport, transports } from "../support/transports.ts";

const READ: Wanted = { action: "battery.read", inputs: {} };

interface Case {
  readonly title: string;
  readonly device?: DeviceOptions;
  readonly wanted?: Wanted;
  readonly entryPoint?: string;
  /** Devices that the request brings; default: the simulated one. */
  readonly devices?: readonly string[];
  readonly capabilities?: readonly { readonly name: string; readonly inputs?: object }[];
  readonly expected: Partial<AskResult>;
  /** Steps of the timeline, in order; others may lie between. */
  readonly steps: readonly string[];
  /** What the device itself says that it did. */
  readonly acted: boolean;
}

const RUNG = ["ask.created", "ask.opened", "ask.ringing"];
const SENT = [...RUNG, "ask.rung", "ask.joined", "ask.sent"];

const cases: readonly Case[] = [
  {
    title: "done",
    expected: { outcome: "done", success: true, data: { level: 71, charging: false } },
    steps: [...SENT, "ask.accepted", "ask.settled"],
    acted: true,
  },
  {
    title: "failed: the device reports a failure",
    device: { behave: "fail" },
    expected: { outcome: "failed", reason: "device_error", success: false },
    steps: [...SENT, "ask.accepted", "ask.settled"],
    acted: true,
  },
  {
    title: "failed: no answer in time",
    device: { behave: "ignore" },
    entryPoint: "impatient",
    expected: { outcome: "failed", reason: "no_answer", success: false, may_have_happened: true },
    steps: [...SENT, "ask.settled"],
    acted: false,
  },
  {
    title: "failed: the answer does not fit the room",
    device: { behave: "oversize" },
    expected: { outcome: "failed", reason: "reply_too_large", success: false, may_have_happened: true },
    steps: [...SENT, "ask.accepted", "ask.settled"],
    acted: true,
  },
  {
    title: "declined",
    device: { behave: "decline" },
    expected: { outcome: "declined", success: false },
    steps: [...SENT, "ask.settled"],
    acted: false,
  },
  {
    title: "sent for approval",
    device: { behave: "approve-later" },
    expected: { outcome: "sent_for_approval", success: false },
    steps: [...SENT, "ask.settled"],
    acted: false,
  },
  {
    title: "not joined: rung, and nobody came",
    device: { behave: "no-join" },
    entryPoint: "impatient",
    expected: { outcome: "not_joined", reason: "no_join", success: false },
    steps: [...RUNG, "ask.rung", "ask.settled"],
    acted: false,
  },
  {
    title: "not joined: the person does not allow the connection",
    device: { behave: "not-allowed" },
    expected: { outcome: "not_joined", reason: "connection_not_allowed", success: false },
    steps: [...RUNG, "ask.rung", "ask.settled"],
    acted: false,
  },
  {
    title: "not joined: nobody listens for the ring",
    devices: ["tablet-2"],
    wanted: { ...READ, device: "tablet-2" },
    expected: { outcome: "not_joined", reason: "device_offline", success: false, device: "tablet-2" },
    steps: [...RUNG, "ask.settled"],
    acted: false,
  },
  {
    title: "unreachable: the room service is down",
    entryPoint: "roomless",
    expected: { outcome: "unreachable", reason: "room_unavailable", success: false },
    steps: ["ask.created", "ask.settled"],
    acted: false,
  },
  {
    title: "refused: no such device",
    wanted: { ...READ, device: "phone-8" },
    expected: { outcome: "refused", reason: "no_such_device", success: false },
    steps: [],
    acted: false,
  },
  {
    title: "refused: several devices and none named",
    devices: ["phone-7", "tablet-2"],
    expected: { outcome: "refused", reason: "no_such_device", success: false },
    steps: [],
    acted: false,
  },
  {
    title: "refused: no action",
    wanted: { inputs: {} },
    expected: { outcome: "refused", reason: "no_action", success: false },
    steps: [],
    acted: false,
  },
  {
    title: "refused: inputs are not an object",
    wanted: { action: "battery.read", inputs: [1, 2] },
    expected: { outcome: "refused", reason: "bad_inputs", success: false },
    steps: [],
    acted: false,
  },
  {
    title: "refused: an action that the device did not declare, before ringing",
    capabilities: [{ name: "battery.read" }],
    wanted: { action: "door.open", inputs: {} },
    expected: { outcome: "refused", reason: "unknown_action", success: false },
    steps: [],
    acted: false,
  },
  {
    title: "refused: an action that the device declares only on joining not to have",
    wanted: { action: "door.open", inputs: {} },
    expected: { outcome: "refused", reason: "unknown_action", success: false },
    steps: [...RUNG, "ask.rung", "ask.joined", "ask.settled"],
    acted: false,
  },
  {
    title: "refused: an action that the operator denies",
    wanted: { action: "message.send", inputs: { to: "+1", body: "hi" } },
    entryPoint: "careful",
    expected: { outcome: "refused", reason: "action_denied", success: false },
    steps: [],
    acted: false,
  },
  {
    title: "refused: a task that is larger than the room carries",
    wanted: { action: "setting.write", inputs: { name: "n", value: "v".repeat(300_000) } },
    expected: { outcome: "refused", reason: "task_too_large", success: false },
    steps: [],
    acted: false,
  },
];

function yamlFor(transport: Transport, model: ObedientModel): string {
  const agent = (name: string, block: string): string =>
    `  ${name}:\n    model: test/any\n    prompt: Do as you are told.\n    device: { ${block} }\n`;
  return [
    "name: journeys\n",
    model.yaml,
    transport.connections,
    `  dead_rooms: { provider: room, url: "http://127.0.0.1:9", api_key: "room-key" }\n`,
    "agents:\n",
    agent("helper", transport.block),
    agent("impatient", `${transport.block}, join_timeout: 1, reply_timeout: 1`),
    agent("roomless", "connection: phones, room: dead_rooms"),
    agent("careful", `${transport.block}, allow: ["*"], deny: ["message.*"]`),
    "entry_points:\n",
    ...["helper", "impatient", "roomless", "careful"].map((name) => `  - { name: ${name}, target: ${name} }\n`),
  ].join("");
}

describe.each(transports)("over $name", ({ open }) => {
  let transport: Transport;
  let model: ObedientModel;
  let mesh: RunningMesh;
  let device: RunningProcess | undefined;

  beforeAll(async () => {
    [transport, model] = await Promise.all([open(), startObedientModel()]);
    mesh = await startMesh({ yaml: yamlFor(transport, model) });
  });

  afterEach(async () => {
    await device?.stop();
    device = undefined;
  });

  afterAll(async () => {
    await mesh?.stop();
    await killAll();
    await Promise.all([model?.close(), transport?.close()]);
  });

  it.each(cases)("$title", async (scene) => {
    device = await transport.start(mesh.url, scene.device);
    const brought = (scene.devices ?? ["phone-7"]).map((id) => ({
      ...transport.device(id),
      ...(scene.capabilities ? { capabilities: scene.capabilities } : {}),
    }));
    const reply: MeshReply = await mesh.request({
      message: callFor(scene.wanted ?? READ),
      entry_point: scene.entryPoint ?? "helper",
      devices: brought,
    });
    expect(reply.status).toBe("succeeded");
    const [result] = resultsIn(reply.reply);
    expect(result).toMatchObject(scene.expected);
    if (scene.expected.may_have_happened === undefined) expect(result?.may_have_happened ?? false).toBe(false);
    if (!scene.expected.success) expect(result?.error).toMatch(/^[A-Z].*[.]/s);

    const [ask] = await mesh.asks(reply.session_id);
    expect(inOrder(ask, scene.steps)).toEqual(scene.steps);
    expect(ask?.timeline.filter(({ type }) => type === "ask.settled").length ?? 0).toBe(
      scene.steps.length > 0 ? 1 : settledOf(ask),
    );
    expect(device.lines.some(({ event }) => event === "acted")).toBe(scene.acted);
  });
});

/** The steps of `wanted` that the timeline has, in its order. */
function inOrder(ask: AskView | undefined, wanted: readonly string[]): readonly string[] {
  const left = [...wanted];
  for (const { type } of ask?.timeline ?? []) if (type === left[0]) left.shift();
  return wanted.slice(0, wanted.length - left.length);
}

function settledOf(ask: AskView | undefined): number {
  return ask ? 1 : 0;
}
