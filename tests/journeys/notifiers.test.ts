/** Each push provider, from a request to the outcome: the real command, a played vendor, a device that is rung by it. */
import { createHmac } from "node:crypto";
import { createDevice, createMemoryLedger, type Device } from "@leafmesh/device";
import { vendorNotifiers } from "@leafmesh/notifiers";
import { deviceNoticeSchema, type MeshKey } from "@leafmesh/protocol";
import type { NotifierDouble } from "@leafmesh/testkit/suites";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { examplePush } from "../../packages/notifiers/testing/example-push.ts";
import { type Hook, startHook } from "../support/hook.ts";
import { databaseOf, findMarks, type Place } from "../support/marks.ts";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";
import { type PushVendor, pushVendors } from "../support/push-vendors.ts";

const HOOK_SECRET = "the-secret-of-the-app";

describe.each(pushVendors)("$provider", (vendor) => {
  let model: ObedientModel;
  let double: NotifierDouble;
  let mesh: RunningMesh;
  let device: Device;
  let app: Hook;
  let marks: Readonly<Record<string, string>>;
  /** What the app and the agent were told. */
  const told: string[] = [];

  beforeAll(async () => {
    app = await startHook();
    model = await startObedientModel();
    const opened = await vendor.open();
    double = opened.double;
    marks = await marksOf(vendor, opened.record);
    mesh = await startMesh({
      yaml: model.yaml + meshOf(vendor, opened.record, app.url),
      args: ["--log-level", "debug"],
      played: [double.server.address],
    });
    const { body: keys } = await mesh.call<{ keys: readonly MeshKey[] }>("GET", "/.well-known/leafmesh-keys");
    device = createDevice({
      id: "phone-7",
      handlers: { "battery.read": () => ({ level: 71 }) },
      approve: () => true,
      ledger: createMemoryLedger(),
      meshKeys: keys.keys,
      stopWithinMs: 100,
    });
  });
  afterAll(async () => {
    await device?.close();
    await mesh?.stop();
    await double?.close();
    await app?.close();
    await model?.close();
  });

  const ask = async () => {
    const answer = await mesh.request({
      message: callFor({ action: "battery.read" }),
      device: { id: "phone-7", push_token: vendor.pushToken },
    });
    const path = `/api/sessions/${answer.session_id}`;
    const read = await Promise.all(["", "/history", "/asks"].map((part) => mesh.call("GET", path + part)));
    told.push(JSON.stringify([answer, read]));
    return answer;
  };

  /** As the page behind a link does after a tap. */
  const ringBehind = async (code: string): Promise<string> => {
    const opened = await mesh.call<{ ring: string; request: { action: string } }>("POST", `/j/${code}`);
    expect(opened).toMatchObject({ status: 200, body: { request: { action: "battery.read" } } });
    expect(await mesh.call("POST", `/j/${code}`)).toMatchObject({
      status: 410,
      body: { error: { code: "link_used" } },
    });
    return opened.body.ring;
  };

  it("rings a device that joins and answers", async () => {
    const rung = receivedBy(double)
      .then((received) => (vendor.codeIn ? ringBehind(vendor.codeIn(received)) : received))
      .then((ring) => device.handleRing(ring, "push"));
    const { reply } = await ask();
    expect(resultsIn(reply)).toMatchObject([{ outcome: "done", success: true, data: { level: 71 } }]);
    expect(await rung).toMatchObject({ status: "answered", outcome: "done", delivered: true });
  });

  it.skipIf(!vendor.deadToken)("tells the agent and the app when the push token is dead", async () => {
    if (!vendor.deadToken) return;
    double.server.answerNext(vendor.deadToken, (request) => double.purposeOf(request) === "ring");
    const { reply, session_id } = await ask();
    expect(resultsIn(reply)).toMatchObject([{ outcome: "unreachable", success: false, reason: "dead_token" }]);
    const { headers, body } = await app.next();
    const notice = deviceNoticeSchema.parse(JSON.parse(body));
    expect(notice).toMatchObject({ event: "device.token_dead", session_id, device: "phone-7", notifier: "phones" });
    const mac = createHmac("sha256", HOOK_SECRET)
      .update(`${headers["x-leafmesh-timestamp"]}.${headers["x-leafmesh-nonce"]}.${body}`)
      .digest("hex");
    expect(headers["x-leafmesh-signature"]).toBe(`sha256=${mac}`);
    told.push(JSON.stringify(headers), body);
  });

  it("keeps the push token and its own secrets out of all that is said and stored, also when the vendor quotes them", async () => {
    const quoting = { status: 400, body: { error: marks } };
    double.server.answerNext(quoting, (request) => double.purposeOf(request) === "ring");
    const { reply } = await ask();
    expect(resultsIn(reply)).toMatchObject([{ outcome: "unreachable", success: false }]);
    expect(await mesh.stop()).toBe(0);
    const places: readonly Place[] = [
      { name: "what the mesh said", text: mesh.output() },
      { name: "what it told others", text: told.join("\n") },
      { name: "a model request", text: JSON.stringify(model.server.requests) },
      ...databaseOf(mesh.folder),
    ];
    expect(findMarks(marks, places)).toEqual([]);
  });
});

/** The push token, the longest part of it, and the fields that are secret by their definition; of long ones, a line. */
async function marksOf(
  { provider, pushToken }: PushVendor,
  record: Readonly<Record<string, unknown>>,
): Promise<Readonly<Record<string, string>>> {
  const { options } = (await vendorNotifiers[provider]?.()) ?? examplePush;
  const { properties = {} } = z.toJSONSchema(options, { io: "input", unrepresentable: "any" });
  const secret = Object.keys(record).filter((name) => (properties[name] as { secret?: boolean }).secret);
  expect(provider === "expo" || secret.length > 0).toBe(true);
  return {
    "the push token": pushToken,
    "a part of the push token": longest(pushToken.match(/[A-Za-z0-9_-]+/g) ?? []),
    ...Object.fromEntries(secret.map((name) => [name, longest(String(record[name]).split(/\n|\\n/))])),
  };
}

function longest(texts: readonly string[]): string {
  return texts.reduce((best, text) => (text.length > best.length ? text : best), "");
}

/** What the device gets of the first ring that the vendor takes. */
async function receivedBy(double: NotifierDouble): Promise<string> {
  for (;;) {
    const [ring] = double.rings;
    if (ring) return ring.body;
    await double.server.received(double.server.requests.length + 1);
  }
}

function meshOf({ provider }: PushVendor, record: Readonly<Record<string, unknown>>, appUrl: string): string {
  const fields = Object.entries(record).map(([name, value]) => `    ${name}: ${JSON.stringify(value)}\n`);
  return `name: pushed
connections:
  phones:
    provider: ${provider}
${fields.join("")}agents:
  helper: { model: test/any, prompt: Do as you are told., device: { connection: phones } }
entry_points:
  - { name: chat, target: helper }
server: { callbacks: { url: "${appUrl}", secret: ${HOOK_SECRET} } }
`;
}
