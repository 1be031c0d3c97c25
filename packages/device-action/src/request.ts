/** What the model asks for, held against the conversation and the agent's rules before anything is stored or rung. */
import type { Agent, ConversationDevice, DeviceBlock } from "@leafmesh/core";
import type { Capability, TaskEnvelope } from "@leafmesh/protocol";
import { isAllowed } from "./allow-list.ts";
import type { Refusal } from "./ask-state.ts";
import { findInputProblems } from "./declared-inputs.ts";
import { quote, shorten } from "./outside-data.ts";

export type DeviceAgent = Agent & { readonly device: DeviceBlock };

/** A request that may go to its device. */
export interface AskRequest {
  readonly device: ConversationDevice;
  readonly action: string;
  readonly inputs: TaskEnvelope["inputs"];
}

/** Why a request is refused, and the device that it named, if that one exists. */
export type RefusedRequest = Refusal & { readonly device?: string | undefined };

const PARAMETERS: ReadonlySet<string> = new Set(["device", "action", "inputs", "reason"]);
const MAX_ACTION_CHARACTERS = 200;
const MAX_SHOWN_CHARACTERS = 80;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;

/** The request, or why it is refused. */
export async function readRequest(
  given: Readonly<Record<string, unknown>>,
  devices: readonly ConversationDevice[],
  block: DeviceBlock,
): Promise<AskRequest | RefusedRequest> {
  const device = chooseDevice(given.device, devices);
  if ("reason" in device) return device;
  const refuse = (refusal: Refusal): RefusedRequest => ({ ...refusal, device: device.id });
  const { action, inputs = {} } = given;
  if (!isActionName(action)) return refuse(NO_ACTION);
  const unknown = Object.keys(given).find((name) => !PARAMETERS.has(name));
  if (unknown !== undefined) {
    const shown = quote(shorten(unknown, MAX_SHOWN_CHARACTERS));
    return refuse(badInputs(`device_action has no parameter ${shown}: what the action needs goes into "inputs".`));
  }
  if (!isObject(inputs)) return refuse(badInputs('"inputs" must be an object, such as {} or {"level": 3}.'));
  if (!isAllowed(action, block)) {
    const shown = quote(shorten(action, MAX_SHOWN_CHARACTERS));
    return refuse({ reason: "action_denied", detail: `This agent may not ask for the action ${shown}.` });
  }
  const problem = device.capabilities && (await checkDeclared(device.capabilities, action, inputs));
  return problem ? refuse(problem) : { device, action, inputs };
}

/** Holds a request against what a device declared, with the conversation or on joining. */
export async function checkDeclared(
  capabilities: readonly Capability[],
  action: string,
  inputs: Readonly<Record<string, unknown>>,
): Promise<Refusal | undefined> {
  const declared = capabilities.find(({ name }) => name === action);
  if (!declared) {
    const names = quote(capabilities.map(({ name }) => name));
    return {
      reason: "unknown_action",
      detail: `The device does not offer the action ${quote(shorten(action, MAX_SHOWN_CHARACTERS))}; it offers ${names}.`,
    };
  }
  const problems = declared.inputs && (await findInputProblems(declared.inputs, inputs));
  return problems === undefined
    ? undefined
    : badInputs(`The inputs do not fit what the device declared for this action: ${problems}.`);
}

function chooseDevice(id: unknown, devices: readonly ConversationDevice[]): ConversationDevice | Refusal {
  if (devices.length === 0) {
    return { reason: "no_such_device", detail: "This conversation has no device, so none can be asked." };
  }
  const ids = quote(devices.map((device) => device.id));
  if (id === undefined || id === null) {
    const [only] = devices;
    if (only && devices.length === 1) return only;
    return { reason: "no_such_device", detail: `This conversation has several devices: name one of ${ids}.` };
  }
  const named = devices.find((device) => device.id === id);
  return named ?? { reason: "no_such_device", detail: `This conversation has no such device: name one of ${ids}.` };
}

function isActionName(action: unknown): action is string {
  return (
    typeof action === "string" &&
    action !== "" &&
    action.length <= MAX_ACTION_CHARACTERS &&
    action.trim() === action &&
    !UNPRINTABLE.test(action)
  );
}

const NO_ACTION: Refusal = {
  reason: "no_action",
  detail: `No action was named: "action" must be a name of 1 to ${MAX_ACTION_CHARACTERS} printable characters.`,
};

function badInputs(detail: string): Refusal {
  return { reason: "bad_inputs", detail };
}

/** Arguments of a tool call were parsed from JSON, so an object in them holds JSON. */
function isObject(value: unknown): value is TaskEnvelope["inputs"] {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
