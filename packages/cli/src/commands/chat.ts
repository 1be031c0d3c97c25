/** `leafmesh chat`: talk to a running mesh, and see its asks as they happen. */
import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline/promises";
import { type ApiClient, type ApiOptions, createApiClient, type StreamFrame } from "../api-client.ts";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { palette, printable, writeLine } from "../output.ts";
import { colorOutcome, describeMoment } from "../timeline.ts";

export interface ChatOptions extends ApiOptions {
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

export async function chat(options: ChatOptions, context: CliContext): Promise<ExitCode> {
  const api = createApiClient(options, context);
  await api.get("/api/mesh/entry_points");
  const attached = await attachDevice(options, api, context);
  try {
    let session = options.session;
    let device: DeviceOfRequest | undefined = attached?.device;
    let failed = false;
    const say = async (message: string): Promise<void> => {
      const turn = await sendMessage(api, context, options, { message, session, device });
      session = turn.session ?? session;
      failed = turn.failed;
      device = undefined;
    };

    if (options.message !== undefined) {
      await say(options.message);
      return failed ? EXIT.failed : EXIT.ok;
    }
    await converse(say, context, api);
    return EXIT.ok;
  } finally {
    await attached?.close();
  }
}

async function converse(say: (message: string) => Promise<void>, context: CliContext, api: ApiClient): Promise<void> {
  const colors = palette(context);
  if (context.isTerminal) {
    writeLine(context.stdout, colors.dim(`Talking to ${api.url}. An empty line or Ctrl-D ends the conversation.`));
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

interface Turn {
  readonly message: string;
  readonly session: string | undefined;
  readonly device: DeviceOfRequest | undefined;
}

async function sendMessage(
  api: ApiClient,
  context: CliContext,
  options: ChatOptions,
  turn: Turn,
): Promise<{ session: string | undefined; failed: boolean }> {
  const colors = palette(context);
  let session: string | undefined;
  let failed = false;
  let midLine = false;
  const line = (text: string): void => {
    if (midLine) writeLine(context.stdout);
    midLine = false;
    writeLine(context.stdout, text);
  };

  const frames = api.stream({
    path: "/api/mesh/request",
    body: {
      message: turn.message,
      stream: true,
      ...(turn.session ? { session_id: turn.session } : {}),
      ...(options.entryPoint && !turn.session ? { entry_point: options.entryPoint } : {}),
      ...(turn.device ? { device: turn.device } : {}),
    },
  });
  for await (const frame of frames) {
    if (frame.type === "run.queued" || frame.type === "run.started") session ??= await sessionOf(api, frame);
    if (options.json) {
      writeLine(context.stdout, JSON.stringify(frame));
      if (frame.type === "run.finished") failed = frame.payload.status !== "succeeded";
      continue;
    }
    if (frame.type === "model.delta") {
      context.stdout.write(printable(String(frame.payload.text), 10_000).replaceAll("⏎", "\n"));
      midLine = true;
    } else if (frame.type.startsWith("ask.")) {
      const text = describeMoment(frame);
      const shown = frame.type === "ask.settled" ? colorOutcome(text, colors) : text;
      line(`${colors.cyan("◆")} ${colors.dim(frame.type.slice(4).padEnd(9))} ${shown}`);
    } else if (frame.type === "model.retried") {
      line(colors.yellow(`the model is tried again: ${printable(String(frame.payload.reason))}`));
    } else if (frame.type === "run.finished") {
      failed = frame.payload.status !== "succeeded";
      const error = frame.payload.error as { message?: string } | undefined;
      line(
        failed ? colors.red(`${String(frame.payload.status)}: ${printable(error?.message ?? "no reason given")}`) : "",
      );
    }
  }
  return { session, failed };
}

async function sessionOf(api: ApiClient, frame: StreamFrame): Promise<string> {
  const run = await api.get<{ session_id: string }>(`/api/runs/${String(frame.payload.run_id)}`);
  return run.session_id;
}

interface Attached {
  readonly device: DeviceOfRequest;
  close(): Promise<void>;
}

async function attachDevice(options: ChatOptions, api: ApiClient, context: CliContext): Promise<Attached | undefined> {
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
    { meshUrl: api.url, id: options.device, token, behave: options.behave },
    context,
  );
  return { device: { id: options.device, push_token: token }, close: () => simulated.close() };
}
