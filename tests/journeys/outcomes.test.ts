/** Each of the seven outcomes, and each reason that can be brought about, through real processes. */
import type { AskView, MeshReply } from "@leafmesh/protocol";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { killAll, type RunningProcess } from "../support/process.ts";
import { READ, scenes, yamlForScenes } from "../support/scenes.ts";
import { everyTransport, type Transport } from "../support/transports.ts";

describe.each(everyTransport)("over $name", ({ open }) => {
  let transport: Transport;
  let model: ObedientModel;
  let mesh: RunningMesh;
  let device: RunningProcess | undefined;

  beforeAll(async () => {
    [transport, model] = await Promise.all([open(), startObedientModel()]);
    mesh = await startMesh({ yaml: yamlForScenes(transport, model), port: transport.port });
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

  it.each(scenes)("$title", async (scene) => {
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
    if (!scene.expected.success) expect(result?.error).toMatch(/^["A-Z].*[.?]$/s);

    const [ask] = await mesh.asks(reply.session_id);
    expect(inOrder(ask, scene.steps)).toEqual(scene.steps);
    expect(ask?.timeline.filter(({ type }) => type === "ask.settled")).toHaveLength(1);
    expect(device.lines.some(({ event }) => event === "acted")).toBe(scene.acted);
  });
});

/** The steps of `wanted` that the timeline has, in its order. */
function inOrder(ask: AskView | undefined, wanted: readonly string[]): readonly string[] {
  const left = [...wanted];
  for (const { type } of ask?.timeline ?? []) if (type === left[0]) left.shift();
  return wanted.slice(0, wanted.length - left.length);
}
