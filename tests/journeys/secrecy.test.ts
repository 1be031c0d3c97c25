/**
 * Marked push tokens and marked secrets go through every scene. Afterwards the marks must be nowhere: in no log at any
 * level, no model request, no history, event, error or HTTP answer, and not in clear in the database files.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { databaseOf, findMarks, formsOf, type Place } from "../support/marks.ts";
import { allAnswers, newFolder, startMesh } from "../support/mesh.ts";
import { allModelRequests, callFor, startObedientModel } from "../support/model.ts";
import { allOutput, killAll, startLeafmesh } from "../support/process.ts";
import { READ, scenes, yamlForScenes } from "../support/scenes.ts";
import { direct, mqtt, type Transport } from "../support/transports.ts";

const MARKS = {
  pushToken: "MARKEDpushTOKEN7f3a",
  apiKey: "MARKEDapiKEY91c2",
  modelKey: "MARKEDmodelKEY55d0",
  roomKey: "MARKEDroomKEYab41",
  brokerPassword: "MARKEDbrokerPASS08e6",
} as const;

const marked: readonly (() => Promise<Transport>)[] = [
  () => direct(MARKS.pushToken),
  () => mqtt({ meshPassword: MARKS.brokerPassword, login: MARKS.pushToken }),
];

afterAll(killAll);

describe("secrets and push tokens", () => {
  it("the search finds a mark in each of its forms", () => {
    for (const form of formsOf(MARKS.pushToken)) {
      expect(findMarks(MARKS, [{ name: "a place", text: `before ${form} after` }])).toContain("pushToken in a place");
    }
  });

  it.each(marked)(
    "are nowhere after every scene (%#)",
    async (open) => {
      const [transport, model] = await Promise.all([open(), startObedientModel()]);
      const folder = newFolder();
      writeFileSync(join(folder, "model.key"), `${MARKS.modelKey}\n`);
      const yaml = yamlForScenes(transport, model, `server: { api_keys: ["\${MESH_KEY}"] }\n`)
        .replace('"model-key"', `"\${file:model.key}"`)
        .replace('"room-key"', `"${MARKS.roomKey}"`);
      const mesh = await startMesh({ yaml, folder, key: MARKS.apiKey, env: { MESH_KEY: MARKS.apiKey, DEBUG: "*" } });
      const sessions: string[] = [];
      for (const scene of scenes) {
        const device = await transport.start(mesh.url, scene.device);
        const reply = await mesh.request({
          message: callFor(scene.wanted ?? READ),
          entry_point: scene.entryPoint ?? "helper",
          devices: (scene.devices ?? ["phone-7"]).map((id) => transport.device(id)),
        });
        sessions.push(reply.session_id);
        await device.stop();
      }
      await provokeErrors(mesh, transport);
      for (const session of sessions) {
        await Promise.all(["", "/history", "/asks"].map((path) => mesh.call("GET", `/api/sessions/${session}${path}`)));
        allAnswers.push(await backlogOf(mesh.url, session));
      }
      await mesh.stop();
      await provokeBadMeshes(yaml, folder);

      const places: readonly Place[] = [
        { name: "the output of a process", text: allOutput.join("") },
        { name: "an HTTP answer or event", text: allAnswers.join("") },
        { name: "a model request", text: allModelRequests.join("") },
        ...databaseOf(folder),
      ];
      const empty = places.filter(({ text }) => text === "").map(({ name }) => name);
      expect(empty.filter((name) => name !== "the file mesh.db.lock")).toEqual([]);
      expect(findMarks(MARKS, places)).toEqual([]);
      await Promise.all([model.close(), transport.close()]);
    },
    240_000,
  );
});

/** Requests that are refused with a marked token inside. */
async function provokeErrors(mesh: Awaited<ReturnType<typeof startMesh>>, transport: Transport): Promise<void> {
  const device = transport.device();
  const bodies: readonly unknown[] = [
    { message: "x", device: { ...device, unknown: 1 } },
    { message: "x", devices: [device, device] },
    { message: "x", device: { id: "a b", push_token: device.push_token } },
    { message: "x", device, devices: [device] },
    { message: "x", device: { ...device, push_token: [device.push_token] } },
    { message: "x", entry_point: "nope", device },
    { message: "x", session_id: "nope", device },
  ];
  for (const body of bodies) expect((await mesh.call("POST", "/api/mesh/request", body)).status).toBeGreaterThan(399);
  const broken = await fetch(`${mesh.url}/api/mesh/request`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": MARKS.apiKey },
    body: JSON.stringify({ message: "x", device }).slice(0, -2),
  });
  allAnswers.push(await broken.text());
}

/** Files that are refused with marked secrets inside. */
async function provokeBadMeshes(yaml: string, folder: string): Promise<void> {
  const broken = [
    yaml.replace("api_key:", "api_kee:"),
    yaml.replace("agents:", "agents: ["),
    yaml.replace(`"${MARKS.roomKey}"`, `["${MARKS.roomKey}"]`),
    yaml.replace(`"${MARKS.roomKey}"`, `${MARKS.roomKey}: x`),
  ];
  for (const [index, text] of broken.entries()) {
    const file = join(folder, `broken-${index}.yaml`);
    writeFileSync(file, text);
    for (const args of [
      ["validate", file],
      ["validate", file, "--json"],
      ["run", file, "--port", "0"],
    ]) {
      const child = startLeafmesh(args, { MESH_KEY: MARKS.apiKey });
      expect(await child.exited).toBe(3);
    }
  }
}

async function backlogOf(url: string, session: string): Promise<string> {
  const stop = new AbortController();
  const response = await fetch(`${url}/api/sessions/${session}/stream`, {
    headers: { "x-api-key": MARKS.apiKey },
    signal: stop.signal,
  });
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true });
    if (text.includes("session_state")) break;
  }
  stop.abort();
  return text;
}
