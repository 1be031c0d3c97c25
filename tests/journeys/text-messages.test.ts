/** From a request to the outcome through a text message: the real command, a played Twilio, the mesh's own page in Chromium. */
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { startTwilioSms, type TwilioSmsDouble } from "@leafmesh/testkit/notifiers";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { callFor, type ObedientModel, resultsIn, startObedientModel } from "../support/model.ts";

const PHONE = { id: "phone-7", push_token: "+15558675310" };
const SID = `AC${"0123456789abcdef".repeat(2)}`;
const INPUTS = { what: "the meter", note: "<img src=x onerror=alert(1)>" };
/** One pixel. */
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));

describe.skipIf(!executablePath && process.env.LEAFMESH_STRICT !== "1")("a request by text message", () => {
  let model: ObedientModel;
  let twilio: TwilioSmsDouble;
  let mesh: RunningMesh;
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    if (!executablePath) throw new Error("Chromium is not installed, and LEAFMESH_STRICT lets nothing be left out");
    const port = await freePort();
    model = await startObedientModel();
    twilio = await startTwilioSms({ sid: SID, authToken: "the-auth-token", numbers: ["+15005550006"] });
    [mesh, browser] = await Promise.all([
      startMesh({ yaml: model.yaml + meshOf(`http://127.0.0.1:${port}`), port, played: [twilio.server.address] }),
      chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] }),
    ]);
    page = await browser.newPage();
  }, 60_000);
  afterAll(async () => {
    await browser?.close();
    expect(await mesh?.stop()).toBe(0);
    expect(mesh.output()).not.toContain(PHONE.push_token);
    for (const { body } of twilio.texts) expect(mesh.output()).not.toContain(codeIn(body));
    await twilio?.close();
    await model?.close();
  }, 60_000);

  /** What the agent was told in the end, and the link in the text. */
  async function ask(agent = "chat") {
    const before = twilio.texts.length;
    const request = { entry_point: agent, device: PHONE };
    const outcome = mesh
      .request({ ...request, message: callFor({ action: "photo.take", inputs: INPUTS }) })
      .then(({ reply }) => resultsIn(reply)[0]);
    while (twilio.texts.length === before) await twilio.server.received(twilio.server.requests.length + 1);
    const text = twilio.texts.at(-1)?.body ?? "";
    return { outcome, link: text.slice(text.indexOf("http")) };
  }

  const tap = (name: string) => page.getByRole("button", { name, exact: true }).click();
  const reads = (text: string) => page.getByRole("heading", { name: text }).waitFor();

  it("is shown after a tap, allowed, done by hand and answered; the link works once", async () => {
    const { outcome, link } = await ask();
    expect(link).toMatch(new RegExp(`^${mesh.url}/j/[1-9A-HJ-NP-Za-km-z]{22}$`));
    for (const method of ["GET", "HEAD"]) {
      const previewed = await fetch(link, { method });
      expect(previewed.status).toBe(200);
      expect(previewed.headers.get("cache-control")).toBe("no-store");
      expect(await previewed.text()).not.toContain("photo.take");
    }

    await page.goto(link);
    await reads("texted asks something of this phone");
    await tap("Show the request");
    await page.getByText("photo.take").waitFor();
    await page.getByText(INPUTS.note).waitFor();
    // Until the person has decided, a reload takes nothing away.
    await page.reload();
    await page.getByText("the meter").waitFor();
    const [request] = await openAsks();
    expect(request).toMatchObject({ state: "reaching" });
    await tap("Allow");
    await page.getByLabel("Your answer").fill("It reads 4711.");
    await page.getByLabel("A photo").setInputFiles({ name: "meter.png", mimeType: "image/png", buffer: PNG });
    await tap("It is done");
    await reads("Thank you");
    expect(await outcome).toMatchObject({
      outcome: "done",
      success: true,
      data: {
        answered_by: "person",
        text: "It reads 4711.",
        photo: { upload: "photo.png", media_type: "image/png", size: PNG.byteLength },
      },
    });

    await page.reload();
    await reads("This link was used already");
    const again = await fetch(link, { method: "POST" });
    expect(again.status).toBe(410);
    expect(await again.json()).toMatchObject({ error: { code: "link_used" } });
  }, 30_000);

  it("is not allowed, and the agent is told so", async () => {
    const { outcome, link } = await ask();
    await page.goto(link);
    await tap("Show the request");
    await tap("Don't allow");
    await reads("You did not allow it");
    expect(await outcome).toMatchObject({ outcome: "not_joined", success: false, reason: "connection_not_allowed" });
  }, 30_000);

  it.each([
    { button: "I could not do it", outcome: "failed", more: { reason: "device_error" } },
    { button: "I decline", outcome: "declined", more: {} },
  ])(
    "is answered as the person says: $button",
    async ({ button, outcome: wanted, more }) => {
      const { outcome, link } = await ask();
      await page.goto(link);
      await tap("Show the request");
      await tap("Allow");
      await page.getByLabel("Your answer").fill("The door is locked.");
      await tap(button);
      const result = await outcome;
      expect(result).not.toHaveProperty("may_have_happened");
      expect(result).toMatchObject({ outcome: wanted, success: false, ...more });
      expect(JSON.stringify(result)).toContain("The door is locked.");
      await page.getByText("You can close this page.").waitFor();
    },
    30_000,
  );

  it("ends when it is not decided in time, and the link with it", async () => {
    const [shown, unopened] = [await ask("hasty"), await ask("hasty")];
    await page.goto(shown.link);
    await tap("Show the request");
    await page.getByText(/Time left to decide: [12] s/).waitFor();
    await reads("The time of this request is over");
    for (const { outcome } of [shown, unopened]) {
      expect(await outcome).toMatchObject({ outcome: "not_joined", success: false, reason: "no_join" });
    }
    const late = await page.goto(unopened.link);
    expect(late?.status()).toBe(410);
    await reads("The time of this request is over");
    const opened = await fetch(unopened.link, { method: "POST" });
    expect(await opened.json()).toMatchObject({ error: { code: "link_over" } });
  }, 30_000);

  it("ends when the ask is cancelled, though there is time left", async () => {
    const { outcome, link } = await ask();
    const [waiting] = await openAsks();
    await mesh.call("POST", `/api/asks/${waiting?.ask_id}/cancel`);
    expect(await outcome).toMatchObject({ success: false, reason: "cancelled" });
    expect(await (await fetch(link, { method: "POST" })).json()).toMatchObject({ error: { code: "link_over" } });
    expect((await fetch(link)).status).toBe(410);
  });

  it("has pages that say what is wrong with a link, and whose program obeys its policy", async () => {
    const unknown = await page.goto(`${mesh.url}/j/${"1".repeat(22)}`);
    expect(unknown?.status()).toBe(404);
    await reads("This link leads nowhere");
    const { status, headers } = await fetch(`${mesh.url}/j/nonsense`);
    expect(status).toBe(404);
    expect(headers.get("content-security-policy")).toMatch(/default-src 'none'; script-src 'self';/);
    expect(headers.get("referrer-policy")).toBe("no-referrer");
  }, 30_000);

  async function openAsks() {
    return (await mesh.call<{ asks: readonly { ask_id: string; state: string }[] }>("GET", "/api/asks?open=true")).body
      .asks;
  }
});

function codeIn(text: string): string {
  return text.slice(text.lastIndexOf("/") + 1);
}

function meshOf(publicUrl: string): string {
  return `name: texted
connections:
  texts: { provider: twilio_sms, account_sid: ${SID}, from: "+15005550006", link: mesh, auth_token: the-auth-token }
agents:
  helper: { model: test/any, prompt: Do as you are told., device: { connection: texts } }
  hasty: { model: test/any, prompt: Do as you are told., device: { connection: texts, join_timeout: 2 } }
entry_points:
  - { name: chat, target: helper }
  - { name: hasty, target: hasty }
server: { public_url: "${publicUrl}" }
`;
}

/** For a mesh whose public address has to be known before it starts. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (typeof address !== "object" || !address) throw new Error("no free port");
  return address.port;
}
