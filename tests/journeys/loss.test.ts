/** What becomes of an ask when a process, a link or the mesh itself is lost under it. */
import type { AskView } from "@leafmesh/protocol";
import { findRefusal } from "@leafmesh/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { allModelRequests, callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess, startLeafmesh } from "../support/process.ts";
import { type Transport, transports } from "../support/transports.ts";
import { until } from "../support/until.ts";

const READ = callFor({ action: "battery.read", inputs: {} });

function yamlFor(transport: Transport, model: ObedientModel, more = ""): string {
  return `name: losses
${model.yaml}${transport.connections}agents:
  helper:
    model: test/any
    prompt: Do as you are told.
    device: { ${transport.block}${more} }
`;
}

describe.each(transports)("over $name", ({ open }) => {
  let transport: Transport;
  let model: ObedientModel;
  const processes: RunningProcess[] = [];

  const keep = <Process extends RunningProcess>(process: Process): Process => {
    processes.push(process);
    return process;
  };

  beforeAll(async () => {
    [transport, model] = await Promise.all([open(), startObedientModel()]);
  });

  afterEach(async () => {
    await Promise.all(processes.splice(0).map((process) => process.stop()));
  });

  afterAll(async () => {
    await killAll();
    await Promise.all([model?.close(), transport?.close()]);
  });

  const ask = async (mesh: RunningMesh): Promise<AskView> => {
    const reply = await mesh.request({ message: READ, device: transport.device() });
    expect(reply.status).toBe("succeeded");
    const [view] = await mesh.asks(reply.session_id);
    if (!view) throw new Error("no ask");
    expect(resultsIn(reply.reply)[0]).toMatchObject({ outcome: view.result?.outcome });
    return view;
  };

  it("device killed after it accepted: it may have happened", async () => {
    const mesh = keep(await startMesh({ yaml: yamlFor(transport, model) }));
    const device = keep(await transport.start(mesh.url, { behave: "crash-after-accepted" }));
    const view = await ask(mesh);
    expect(view.result).toMatchObject({ outcome: "failed", reason: "connection_lost", may_have_happened: true });
    expect(device.lines.map(({ event }) => event)).not.toContain("acted");
  });

  it("device killed after it acted and before it answered: it may have happened, and it did", async () => {
    const mesh = keep(await startMesh({ yaml: yamlFor(transport, model) }));
    const device = keep(await transport.start(mesh.url, { behave: "crash-after-acted" }));
    const view = await ask(mesh);
    expect(view.result).toMatchObject({ outcome: "failed", reason: "connection_lost", may_have_happened: true });
    expect(device.lines.map(({ event }) => event)).toContain("acted");
  });

  it("device drops in the middle of the task and comes back: done, once", async () => {
    const mesh = keep(await startMesh({ yaml: yamlFor(transport, model) }));
    const device = keep(await transport.start(mesh.url, { behave: "drop=500" }));
    const view = await ask(mesh);
    expect(view.result).toMatchObject({ outcome: "done", data: { level: 71 } });
    expect(device.lines.filter(({ event }) => event === "acted")).toHaveLength(1);
    expect(device.lines.map(({ event }) => event)).toContain("away");
  });

  it("device answers after the reply wait: the outcome stays as it was", async () => {
    const mesh = keep(await startMesh({ yaml: yamlFor(transport, model, ", reply_timeout: 1") }));
    const device = keep(await transport.start(mesh.url, { behave: "late=2500" }));
    const view = await ask(mesh);
    expect(view.result).toMatchObject({ outcome: "failed", reason: "no_answer", may_have_happened: true });
    await device.waitFor("settled");
    const again = await mesh.call<AskView>("GET", `/api/asks/${view.ask_id}`);
    expect(again.body.result).toEqual(view.result);
  });

  it("device joins after the join wait: it is told that it is over and does nothing", async () => {
    const mesh = keep(await startMesh({ yaml: yamlFor(transport, model, ", join_timeout: 1") }));
    const device = keep(await transport.start(mesh.url, { behave: "join-late=2500" }));
    const view = await ask(mesh);
    expect(view.result).toMatchObject({ outcome: "not_joined", reason: "no_join" });
    const end = await device.waitFor("settled");
    expect(end.disposition).toMatchObject({ status: expect.stringMatching(/^(not_joined|no_task|ignored)$/) });
    expect(device.lines.map(({ event }) => event)).not.toContain("acted");
  });

  it("a second answer changes nothing", async () => {
    const mesh = keep(await startMesh({ yaml: yamlFor(transport, model) }));
    keep(await transport.start(mesh.url, { behave: "twice" }));
    const view = await ask(mesh);
    expect(view.result).toMatchObject({ outcome: "done" });
    expect(view.timeline.filter(({ type }) => type === "ask.settled")).toHaveLength(1);
  });

  it("mesh killed while the device works: the next start ends the run honestly and closes the history", async () => {
    const folder = newFolder();
    const yaml = yamlFor(transport, model);
    const first = keep(await startMesh({ yaml, folder }));
    const device = keep(await transport.start(first.url, { behave: "late=4000" }));
    const { body } = await first.call<{ session_id: string }>("POST", "/api/sessions", { device: transport.device() });
    const path = `/api/sessions/${body.session_id}`;
    await first.call("POST", `${path}/query`, { query: READ });
    await device.waitFor("accepted");
    first.kill("SIGKILL");
    await first.exited;

    const second = keep(await startMesh({ yaml, folder }));
    const finished = await until("the run's end", async () => {
      const [view] = await second.asks(body.session_id);
      const history = await second.history(body.session_id);
      return view?.state === "settled" && history.at(-1)?.role === "assistant" && !history.at(-1)?.tool_calls
        ? { view, history }
        : undefined;
    });
    expect(finished.view.result).toMatchObject({
      outcome: "failed",
      reason: "mesh_restarted",
      may_have_happened: true,
    });
    expect(finished.history.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(resultsIn(finished.history.at(-1)?.content)[0]).toMatchObject({ reason: "mesh_restarted" });
    const more = await second.request({ message: "and now?", session_id: body.session_id });
    expect(more).toMatchObject({ status: "succeeded", reply: "You said: and now?" });
  });

  it("mesh killed before the task was sent: the next start says that nothing happened", async () => {
    const folder = newFolder();
    const yaml = yamlFor(transport, model);
    const first = keep(await startMesh({ yaml, folder }));
    const device = keep(await transport.start(first.url, { behave: "no-join" }));
    const { body } = await first.call<{ session_id: string }>("POST", "/api/sessions", { device: transport.device() });
    await first.call("POST", `/api/sessions/${body.session_id}/query`, { query: READ });
    await device.waitFor("ring");
    first.kill("SIGKILL");
    await first.exited;

    const second = keep(await startMesh({ yaml, folder }));
    const result = await until("the outcome", async () => (await second.asks(body.session_id))[0]?.result);
    expect(result).toMatchObject({ outcome: "unreachable", reason: "mesh_restarted" });
    expect(result.may_have_happened ?? false).toBe(false);
  });

  it("mesh stopped while the device works: the ask ends honestly before the process does, with exit code 0", async () => {
    const folder = newFolder();
    const yaml = yamlFor(transport, model);
    const first = keep(await startMesh({ yaml, folder, args: ["--grace", "1"] }));
    const device = keep(await transport.start(first.url, { behave: "late=8000" }));
    const { body } = await first.call<{ session_id: string }>("POST", "/api/sessions", { device: transport.device() });
    await first.call("POST", `/api/sessions/${body.session_id}/query`, { query: READ });
    await device.waitFor("accepted");
    expect(await first.stop()).toBe(0);

    const second = keep(await startMesh({ yaml, folder }));
    const [view] = await second.asks(body.session_id);
    expect(view?.result).toMatchObject({ outcome: "failed", reason: "mesh_restarted", may_have_happened: true });
  });

  it("somebody cancels: before the task nothing happened, afterwards it may have", async () => {
    const mesh = keep(await startMesh({ yaml: yamlFor(transport, model) }));
    for (const { behave, event, expected } of [
      { behave: "no-join", event: "ring", expected: { outcome: "not_joined", reason: "cancelled" } },
      {
        behave: "late=8000",
        event: "accepted",
        expected: { outcome: "failed", reason: "cancelled", may_have_happened: true },
      },
    ]) {
      const device = await transport.start(mesh.url, { behave });
      const { body } = await mesh.call<{ session_id: string }>("POST", "/api/sessions", { device: transport.device() });
      await mesh.call("POST", `/api/sessions/${body.session_id}/query`, { query: READ });
      await device.waitFor(event);
      const [view] = await until("the ask", async () => {
        const asks = await mesh.asks(body.session_id);
        return asks.length > 0 ? asks : undefined;
      });
      const cancelled = startLeafmesh(["asks", "cancel", view?.ask_id ?? "", "--url", mesh.url]);
      expect(await cancelled.exited).toBe(0);
      const result = await until("the outcome", async () => (await mesh.asks(body.session_id))[0]?.result);
      expect(result).toMatchObject(expected);
      await device.stop();
    }
  });

  it("never gives the model a history that a provider refuses", () => {
    for (const body of allModelRequests) expect(findRefusal(JSON.parse(body))).toBeUndefined();
  });
});
