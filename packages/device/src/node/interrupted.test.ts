import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Mesh, startMesh } from "../../testing/mesh.ts";
import { createDevice } from "../device.ts";
import { openFileLedger } from "./file-ledger.ts";

let mesh: Mesh;
let folder: string;
beforeEach(async () => {
  mesh = await startMesh(() => Date.now());
  folder = await mkdtemp(join(tmpdir(), "leafmesh-device-"));
});
afterEach(async () => {
  await mesh.close();
  await rm(folder, { recursive: true });
});

it("a device that is killed after it accepted never acts again, and says that it does not know", {
  timeout: 30_000,
}, async () => {
  const ledgerPath = join(folder, "ledger.jsonl");
  const first = await mesh.open();
  const program = join(import.meta.dirname, "../../testing/interrupted-device.program.ts");
  const child = spawn(
    process.execPath,
    ["--conditions=leafmesh-source", program, ledgerPath, JSON.stringify(first.ring)],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  first.task({ action: "message.send" });
  await first.frame("accepted");
  const [printed] = await once(child.stdout, "data");
  expect(String(printed)).toBe("acting\n");
  child.kill("SIGKILL");
  await once(child, "exit");
  first.close();

  const ledger = await openFileLedger(ledgerPath);
  let acted = 0;
  const device = createDevice({ id: "phone-7", ledger, handlers: { "message.send": () => void acted++ } });
  const second = await mesh.open();
  const ended = device.handleRing(second.ring);
  second.task({ action: "message.send" });
  expect(await second.frame("reply")).toMatchObject({
    outcome: "failed",
    error: { code: "outcome_unknown", may_have_happened: true },
  });
  expect(await ended).toMatchObject({ status: "answered", repeated: true, delivered: true });
  expect(acted).toBe(0);
  expect(await readFile(`${ledgerPath}.acted`, "utf8")).toBe("once\n");

  // And what it said stays what it says.
  await ledger.close();
  const reopened = await openFileLedger(ledgerPath);
  expect(await reopened.get("ask_1")).toMatchObject({ state: "answered", delivered: true });
  await reopened.close();
  await device.close();
});
