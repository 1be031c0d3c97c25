/** `leafmesh asks`: list, show, cancel. */
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { type MeshAddress, withMesh } from "../open-mesh.ts";
import { clockTime, palette, printable, table, withSpinner, writeJson, writeLine } from "../output.ts";
import { colorOutcome, describeResult, renderTimeline } from "../timeline.ts";

export interface ListAsksOptions extends MeshAddress {
  readonly session?: string | undefined;
  readonly open?: boolean | undefined;
  readonly limit?: number | undefined;
  readonly json?: boolean | undefined;
}

export async function listAsks(options: ListAsksOptions, context: CliContext): Promise<ExitCode> {
  const { session, limit = 20, open } = options;
  const query = { limit, ...(open ? { open } : {}) };
  const asks = await withSpinner(context, "Reading asks", () =>
    withMesh(options, context, (mesh) =>
      (session === undefined ? mesh.asks.list : mesh.session(session).asks)(query, { signal: context.signal }),
    ),
  );
  if (options.json) {
    writeJson(context.stdout, asks);
    return EXIT.ok;
  }
  if (asks.length === 0) {
    writeLine(context.stdout, options.open ? "No ask is waiting." : "No asks yet.");
    return EXIT.ok;
  }
  const colors = palette(context);
  const rows = asks.map((ask) => [
    ask.ask_id,
    clockTime(ask.created_at),
    printable(ask.device ?? "–", 40),
    printable(ask.action ?? "–", 40),
    ask.result ? colorOutcome(describeResult(ask.result), colors) : ask.state,
  ]);
  writeLine(context.stdout, table([["ASK", "AT (UTC)", "DEVICE", "ACTION", "STATE"], ...rows]));
  return EXIT.ok;
}

export interface ShowAskOptions extends MeshAddress {
  readonly json?: boolean | undefined;
}

export async function showAsk(askId: string, options: ShowAskOptions, context: CliContext): Promise<ExitCode> {
  const ask = await withMesh(options, context, (mesh) => mesh.asks.get(askId, { signal: context.signal }));
  if (options.json) {
    writeJson(context.stdout, ask);
    return EXIT.ok;
  }
  const colors = palette(context);
  const facts = [
    ["ask", ask.ask_id],
    ["session", ask.session_id],
    ["run", ask.run_id],
    ["agent", printable(ask.agent)],
    ["device", printable(ask.device ?? "none")],
    ["action", printable(ask.action ?? "none")],
    ["inputs", printable(JSON.stringify(ask.inputs ?? {}))],
    ["state", ask.state],
    ...(ask.result ? [["outcome", colorOutcome(describeResult(ask.result), colors)]] : []),
    ...(ask.result?.error ? [["error", printable(ask.result.error)]] : []),
    ...(ask.result?.data === undefined ? [] : [["data", printable(JSON.stringify(ask.result.data))]]),
  ];
  writeLine(context.stdout, table(facts));
  writeLine(context.stdout);
  writeLine(context.stdout, renderTimeline(ask, colors));
  return EXIT.ok;
}

export async function cancelAsk(askId: string, options: MeshAddress, context: CliContext): Promise<ExitCode> {
  await withMesh(options, context, (mesh) => mesh.asks.cancel(askId, { signal: context.signal }));
  writeLine(context.stdout, `Ask ${askId} is being ended. See how: leafmesh asks show ${askId}`);
  return EXIT.ok;
}
