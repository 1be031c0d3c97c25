/**
 * Whoever does what the agent asks for, in a process of its own: a device that is rung, a client on the conversation's
 * stream, or the client of a run. Each act is on disk, in its journal, before it is done; the journal is never read here.
 *
 *   executor.program.ts <device|bridge|client> <address of the mesh> <folder> <session or run id>
 */
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createClient, createExecutor, type ExecutorEvent } from "@leafmesh/client";
import { openFileCallLedger } from "@leafmesh/client/node";
import { connectDirect, createDevice, directAddress } from "@leafmesh/device";
import { openFileLedger } from "@leafmesh/device/node";
import { ACT, DEVICE, JOURNAL } from "./wanted.ts";

const [face, url = "", folder = "", id = ""] = process.argv.slice(2);
const journal = openSync(join(folder, JOURNAL), "a");
const released = new Promise<void>((resolve) => process.once("SIGUSR2", () => resolve()));

function say(event: string, more: object = {}): void {
  writeSync(1, `${JSON.stringify({ event, ...more })}\n`);
}

async function act({ number, hold }: Readonly<Record<string, unknown>>): Promise<{ acted: unknown }> {
  writeSync(journal, `${JSON.stringify(number)}\n`);
  fsyncSync(journal);
  say("acting", { number });
  if (hold) await released;
  return { acted: number };
}

async function beDevice(): Promise<() => Promise<void>> {
  const ledger = await openFileLedger(join(folder, "device-ledger"));
  const device = createDevice({
    id: DEVICE.id,
    handlers: { [ACT.action]: ({ inputs }) => act(inputs) },
    approve: () => true,
    ledger,
    stopWithinMs: 100,
  });
  const direct = connectDirect({
    url: directAddress(url),
    id: DEVICE.id,
    token: DEVICE.push_token,
    onRing: (ring) => void device.handleRing(ring, "direct"),
    random: () => 0,
  });
  await direct.ready();
  return async () => {
    direct.close();
    await device.close();
    await ledger.close();
  };
}

async function beClient(): Promise<() => Promise<void>> {
  const ledger = await openFileCallLedger(join(folder, "call-ledger"));
  const tool = { description: "Acts once.", parameters: { type: "object" }, run: act };
  const executor = createExecutor({
    tools: { [ACT.deviceTool]: tool, [ACT.clientTool]: tool },
    ledger,
    onEvent: (event: ExecutorEvent) => say(event.type, "call" in event ? { number: event.call.args.number } : {}),
  });
  const client = createClient({ url });
  if (face === "bridge") await executor.attach(client.session(id));
  else {
    executor.serveRun(client.run(id)).then(
      ({ status }) => say("run-ended", { status }),
      (error: unknown) => say("run-failed", { error: String(error) }),
    );
  }
  return async () => {
    await executor.close();
    await ledger.close();
  };
}

const close = await (face === "device" ? beDevice() : beClient());
process.once("SIGTERM", () => {
  void close().then(() => {
    closeSync(journal);
    process.exit(0);
  });
});
say("ready");
