/** How each outcome and reason is brought about, and what must be seen then. */
import type { AskResult } from "@leafmesh/protocol";
import type { DeviceOptions } from "./device.ts";
import type { ObedientModel, Wanted } from "./model.ts";
import type { Transport } from "./transports.ts";

export const READ: Wanted = { action: "battery.read", inputs: {} };

export interface Scene {
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

export const scenes: readonly Scene[] = [
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
    steps: ["ask.created", "ask.settled"],
    acted: false,
  },
  {
    title: "refused: several devices and none named",
    devices: ["phone-7", "tablet-2"],
    expected: { outcome: "refused", reason: "no_such_device", success: false },
    steps: ["ask.created", "ask.settled"],
    acted: false,
  },
  {
    title: "refused: no action",
    wanted: { inputs: {} },
    expected: { outcome: "refused", reason: "no_action", success: false },
    steps: ["ask.created", "ask.settled"],
    acted: false,
  },
  {
    title: "refused: inputs are not an object",
    wanted: { action: "battery.read", inputs: [1, 2] },
    expected: { outcome: "refused", reason: "bad_inputs", success: false },
    steps: ["ask.created", "ask.settled"],
    acted: false,
  },
  {
    title: "refused: an action that the device did not declare, before ringing",
    capabilities: [{ name: "battery.read" }],
    wanted: { action: "door.open", inputs: {} },
    expected: { outcome: "refused", reason: "unknown_action", success: false },
    steps: ["ask.created", "ask.settled"],
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
    steps: ["ask.created", "ask.settled"],
    acted: false,
  },
  {
    title: "refused: a task that is larger than the room carries",
    wanted: { action: "setting.write", inputs: { name: "n", value: "v".repeat(90_000) } },
    expected: { outcome: "refused", reason: "task_too_large", success: false },
    steps: ["ask.created", "ask.settled"],
    acted: false,
  },
];

/** A mesh with the entry points that the scenes name. */
export function yamlForScenes(transport: Transport, model: ObedientModel, more = ""): string {
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
    more,
  ].join("");
}
