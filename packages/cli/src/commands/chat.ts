/** `leafmesh chat`: talk to a running mesh, and see its asks as they happen. */
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline/promises";
import type { Client, MeshEvent } from "@leafmesh/client";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { type MeshAddress, withMesh } from "../open-mesh.ts";
import { palette, printable, writeLine } from "../output.ts";
import { colorOutcome, describeMoment } from "../timeline.ts";
import { waitingRuns } from "../waiting-runs.ts";

export interface ChatOptions extends MeshAddress {
  readonly session?: string | undefined;
  readonly entryPoint?: string | undefined;
  /** One message, then exit. */
  readonly message?: string | undefined;
  /** Attach a simulated device under this id; it is rung over the `direct` notifier. */
  readonly device?: string | undefined;
  /** What the simulated device does; see `leafmesh device --help`. */
  readonly behave?: string | undefined;
  /** A real device: id and push token. */
  readonly deviceId?: string | undefined;
  readonly pushToken?: string | undefined;
  /** One JSON line per frame instead of text. */
  readonly json?: boolean | undefined;
}

interface DeviceOfRequest {
  readonly id: string;
  readonly push_token: string;
}

export function chat(options: ChatOptions, context: CliContext): Promise<ExitCode> {
  return withMesh(options, context, (mesh) => chatWith(mesh, options, context));
}

async function chatWith(mesh: Client, options: ChatOptions, context: CliContext): Promise<ExitCode> {
  await mesh.entryPoints({ signal: context.signal });
  if (options.session !== undefined && !options.json) await showWaitingRuns(mesh, options.session, context);
  const attached = await attachDevice(options, mesh, context);
  try {
    let session = options.session;
    let device: DeviceOfRequest | undefined = attached?.device;
    let failed = false;
    const say = async (message: string): Promise<void> => {
      const turn = await sendMessage(mesh, context, options, { message, session, device });
      session = turn.session ?? session;
      failed = turn.failed;
      device = undefined;
    };

    if (options.message !== undefined) {
      await say(options.message);
      return failed ? EXIT.failed : EXIT.ok;
    }
    await converse(say, context, mesh);
    return EXIT.ok;
  } finally {
    await attached?.close();
  }
}

async function converse(say: (message: string) => Promise<void>, context: CliContext, mesh: Client): Promise<void> {
  const colors = palette(context);
  if (context.isTerminal) {
    writeLine(context.stdout, colors.dim(`Talking to ${mesh.url}. An empty line or Ctrl-D ends the conversation.`));
  }
  const lines = createInterface({ input: process.stdin, output: process.stdout, terminal: context.isTerminal });
  context.signal.addEventListener("abort", () => lines.close(), { once: true });
  lines.setPrompt(context.isTerminal ? "› " : "");
  lines.prompt();
  for await (const line of lines) {
    const message = line.trim();
    if (message === "") break;
    await say(message);
    lines.prompt();
  }
  lines.close();
}

/** A message sent now would wait behind them, so the person should know what they wait for. */
async function showWaitingRuns(mesh: Client, sessionId: string, context: CliContext): Promise<void> {
  const colors = palette(context);
  for (const { runId, suspension } of await waitingRuns(mesh, sessionId, context.signal)) {
    const wanted = suspension.resume_contract === "approval" ? "somebody's approval" : "its client";
    const calls = suspension.prompt.tool_calls.map(
      ({ name, arguments: args }) => `${printable(name)}(${printable(JSON.stringify(args), 200)})`,
    );
    writeLine(
      context.stdout,
      `${colors.cyan("◆")} ${colors.dim("suspended")} run ${runId} waits for ${wanted} until ${suspension.deadline_at}: ${calls.join(", ")}`,
    );
  }
}

interface Turn {
  readonly message: string;
  readonly session: string | undefined;
  readonly device: DeviceOfRequest | undefined;
}

async function sendMessage(
  mesh: Client,
  context: CliContext,
  options: ChatOptions,
  turn: Turn,
): Promise<{ session: string | undefined; failed: boolean }> {
  const events = mesh.stream(
    {
      message: turn.message,
      ...(turn.session ? { session_id: turn.session } : {}),
      ...(options.entryPoint && !turn.session ? { entry_point: options.entryPoint } : {}),
      ...(turn.device ? { device: turn.device } : {}),
    },
    { signal: context.signal },
  );
  const printer = options.json ? jsonPrinter(context) : textPrinter(context);
  let failed = false;
  for await (const event of events) {
    printer(event);
    if (event.type === "run.finished" && event.payload.run_id === events.runId) {
      failed = event.payload.status !== "succeeded";
    }
  }
  context.signal.throwIfAborted();
  return { session: events.sessionId, failed };
}

/** Frames as they are on the wire, with their number as `id`. */
function jsonPrinter({ stdout }: CliContext): (event: MeshEvent) => void {
  return (event) => {
    const type = event.type === "unknown" ? event.name : event.type;
    const { payload, ts, seq } = event;
    writeLine(stdout, JSON.stringify({ type, payload, ts, ...(seq === undefined ? {} : { id: seq }) }));
  };
}

function textPrinter(context: CliContext): (event: MeshEvent) => void {
  const colors = palette(context);
  let midLine = false;
  const line = (text: string): void => {
    if (midLine) writeLine(context.stdout);
    midLine = false;
    writeLine(context.stdout, text);
  };
  return (event) => {
    if (event.type === "model.delta") {
      context.stdout.write(printable(event.payload.text, 10_000).replaceAll("⏎", "\n"));
      midLine = true;
    } else if (event.type.startsWith("ask.")) {
      const text = describeMoment(event);
      const shown = event.type === "ask.settled" ? colorOutcome(text, colors) : text;
      line(`${colors.cyan("◆")} ${colors.dim(event.type.slice(4).padEnd(9))} ${shown}`);
    } else if (event.type === "model.retried") {
      line(colors.yellow(`the model is tried again: ${printable(event.payload.reason)}`));
    } else if (event.type === "run.finished") {
      const { status, error } = event.payload;
      line(status === "succeeded" ? "" : colors.red(`${status}: ${printable(error?.message ?? "no reason given")}`));
    }
  };
}

interface Attached {
  readonly device: DeviceOfRequest;
  close(): Promise<void>;
}

async function attachDevice(options: ChatOptions, mesh: Client, context: CliContext): Promise<Attached | undefined> {
  if (options.deviceId !== undefined || options.pushToken !== undefined) {
    if (options.deviceId === undefined || options.pushToken === undefined) {
      throw new CommandFailure("--device-id and --push-token go together.", { exitCode: EXIT.usage });
    }
    return { device: { id: options.deviceId, push_token: options.pushToken }, close: async () => {} };
  }
  if (options.device === undefined) return undefined;
  const { startSimulatedDevice } = await import("../simulated-device.ts");
  const token = randomBytes(18).toString("base64url");
  const simulated = await startSimulatedDevice(
    { meshUrl: mesh.url, id: options.device, token, behave: options.behave },
    context,
  );
  return { device: { id: options.device, push_token: token }, close: () => simulated.close() };
}
