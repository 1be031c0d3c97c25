/** How a simulated device behaves: well, or in one of the ways in which devices go wrong. */
import {
  type Connector,
  type DeviceRoom,
  type DeviceRoomEvent,
  decline,
  fail,
  sendForApproval,
  type TaskHandler,
} from "@leafmesh/device";
import { EXIT } from "../context.ts";
import { CommandFailure } from "../failure.ts";

/** Name, whether it takes a number of milliseconds, and what the help says. */
const BEHAVIOURS = {
  done: { ms: "none", help: "does what it is asked" },
  fail: { ms: "none", help: "tries, and reports a failure" },
  decline: { ms: "none", help: "declines every task" },
  "approve-later": { ms: "none", help: "hands every task to a person on the device" },
  ignore: { ms: "none", help: "joins, and never answers the task" },
  "no-join": { ms: "none", help: "is rung, and does not join" },
  "not-allowed": { ms: "none", help: "the person does not allow the connection" },
  "join-late": { ms: "needed", help: "joins so much later" },
  late: { ms: "needed", help: "answers so much later, whatever the mesh says meanwhile" },
  drop: { ms: "allowed", help: "loses its link after it accepted, for so long; without a number for good" },
  "crash-after-accepted": { ms: "none", help: "is killed after it accepted and before it acts" },
  "crash-after-acted": { ms: "none", help: "is killed after it acted and before it answers" },
  oversize: { ms: "none", help: "answers with more than a room carries" },
  twice: { ms: "none", help: "sends its answer twice" },
} as const satisfies Record<string, { ms: "none" | "allowed" | "needed"; help: string }>;

type BehaviourName = keyof typeof BEHAVIOURS;

export interface Behaviour {
  readonly name: BehaviourName;
  /** `undefined` where none was given. */
  readonly ms: number | undefined;
}

/** For `leafmesh device --help`. */
export const BEHAVIOUR_HELP: string = Object.entries(BEHAVIOURS)
  .map(([name, { ms, help }]) => {
    const suffix = { none: "", allowed: "[=<ms>]", needed: "=<ms>" }[ms];
    return `  ${`${name}${suffix}`.padEnd(22)}${help}`;
  })
  .join("\n");

/** Longest wait that a behaviour may ask for. */
const MAX_MS = 3_600_000;
/** More than any room's frame limit. */
const OVERSIZE_CHARACTERS = 2_000_000;

/** Throws a {@link CommandFailure} that lists what there is. */
export function parseBehaviour(text: string): Behaviour {
  const [name = "", number, ...more] = text.split("=");
  const known = isBehaviourName(name) ? BEHAVIOURS[name] : undefined;
  const ms = number === undefined ? undefined : Number(number);
  const numberFits =
    ms === undefined ? known?.ms !== "needed" : known?.ms !== "none" && /^\d+$/.test(number ?? "") && ms <= MAX_MS;
  if (!isBehaviourName(name) || more.length > 0 || !numberFits) {
    throw new CommandFailure(`--behave ${text} is not one of these:\n${BEHAVIOUR_HELP}`, { exitCode: EXIT.usage });
  }
  return { name, ms };
}

function isBehaviourName(name: string): name is BehaviourName {
  return Object.hasOwn(BEHAVIOURS, name);
}

/** What misbehaving needs of the machine. */
export interface Means {
  /** Resolves after so many milliseconds, or when the program stops. */
  wait(ms: number): Promise<void>;
  /** Resolves when the program stops. */
  forever(): Promise<void>;
  /** Ends the process at once, as the kernel would. */
  kill(): void;
  /** Cuts the link to the room; it cannot be brought back for `ms`, or ever. */
  cut(ms: number | undefined): void;
  /** Resolves when the link has been cut, or the program stops. */
  untilCut(): Promise<void>;
}

/** The handler as this device behaves; `acted` is called when it really did something. */
export function behavingHandler(
  handler: TaskHandler,
  behaviour: Behaviour,
  means: Means,
  acted: (ask: string, action: string) => void,
): TaskHandler {
  return async (task) => {
    const act = async (): Promise<unknown> => {
      const value = await handler(task);
      acted(task.ask, task.action);
      return value;
    };
    switch (behaviour.name) {
      case "decline":
        return decline("The simulated device was told to decline");
      case "approve-later":
        return sendForApproval("It waits on the simulated device's screen");
      case "fail":
        await act();
        return fail("simulated_failure", "The simulated device was told to fail");
      case "oversize":
        await act();
        return "x".repeat(OVERSIZE_CHARACTERS);
      case "late":
        await means.wait(behaviour.ms ?? 0);
        return act();
      case "drop":
        await means.untilCut();
        return act();
      case "crash-after-accepted":
        return means.forever();
      case "crash-after-acted":
        await act();
        means.kill();
        return means.forever();
      default:
        return act();
    }
  };
}

/** The connector as this device behaves. */
export function behavingConnector(connector: Connector, behaviour: Behaviour, means: Means): Connector {
  return {
    providers: connector.providers,
    refuse: (ring, signal) => connector.refuse(ring, signal),
    async join(ring, options) {
      if (behaviour.name === "join-late") await means.wait(behaviour.ms ?? 0);
      return behavingRoom(await connector.join(ring, options), behaviour, means);
    },
  };
}

function behavingRoom(room: DeviceRoom, behaviour: Behaviour, means: Means): DeviceRoom {
  const arrived = async (): Promise<boolean> => room.acked(new AbortController().signal);
  return {
    maxEnvelopeBytes: room.maxEnvelopeBytes,
    events: behaviour.name === "ignore" ? withoutTasks(room.events) : room.events,
    acked: (signal) => room.acked(signal),
    leave: (reason) => room.leave(reason),
    send(envelope) {
      const result = room.send(envelope);
      if (envelope.type === "accepted" && behaviour.name === "crash-after-accepted") {
        void arrived().then((there) => there && means.kill());
      }
      if (envelope.type === "accepted" && behaviour.name === "drop") {
        void arrived().then((there) => there && means.cut(behaviour.ms));
      }
      if (envelope.type === "reply" && behaviour.name === "twice") room.send(envelope);
      return result;
    },
  };
}

async function* withoutTasks(events: AsyncIterable<DeviceRoomEvent>): AsyncIterable<DeviceRoomEvent> {
  for await (const event of events) {
    if (event.type !== "envelope" || event.envelope.type !== "task") yield event;
  }
}
