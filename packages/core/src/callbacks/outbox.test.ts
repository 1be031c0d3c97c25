/** Notices as their receiver meets them, over real sockets. */
import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { runNoticeSchema, Secret } from "@leafmesh/protocol";
import { createFakeClock, type FakeClock } from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { answer, clientMesh, strict, submit } from "../client-tools/test-runs.ts";
import { call, calls, createDisk, harness, says, scripted } from "../runs/testing/index.ts";
import { createSealer, SECRET_KEY_BYTES } from "../security/sealer.ts";
import type { Backend } from "../storage/contract.ts";
import { MAX_ATTEMPTS } from "./outbox.ts";

const SECRET = "webhook-secret";
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

interface Delivery {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Takes notices; `status` decides how each is answered, from the first. */
async function receiver(status: (nth: number) => number = () => 204, headers: Record<string, string> = {}) {
  const deliveries: Delivery[] = [];
  const waiting = new Set<() => void>();
  const server = createServer((incoming, response) => {
    let body = "";
    incoming.on("data", (chunk) => {
      body += chunk;
    });
    incoming.on("end", () => {
      deliveries.push({ headers: incoming.headers, body });
      response.writeHead(status(deliveries.length), headers).end();
      for (const look of [...waiting]) look();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook?token=t`,
    deliveries,
    received: (count: number) =>
      new Promise<void>((resolve) => {
        const look = (): void => {
          if (deliveries.length < count) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
  };
}

function meshWith(allow: readonly string[] = ["http://127.0.0.1:*"]) {
  const mesh = clientMesh();
  return { ...mesh, server: { ...mesh.server, callbacks: { allow, secret: new Secret(SECRET) } } };
}

const notices = (deliveries: readonly Delivery[]) =>
  deliveries.map(({ body }) => runNoticeSchema.parse(JSON.parse(body)));

const withCallback = (callbackUrl: string) => ({
  run: { clientTools: "suspend", clientToolTimeoutMs: 60_000, callbackUrl } as const,
});

/** Callbacks of the store that are not done with. */
async function settled(backend: Backend, clock: FakeClock): Promise<void> {
  for (let looks = 0; looks < 10_000; looks++) {
    if ((await backend.dueCallbacks(clock.nowMs() + 1e9, 100)).length === 0) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error("notices are still waiting");
}

/** Resolves once the attempt has failed and the next one is waited for; gives the milliseconds until then. */
async function failedAttempt(backend: Backend, clock: FakeClock, attempt: number): Promise<number> {
  const pauseMs = Math.min(2_000 * 2 ** (attempt - 1), 3_600_000);
  for (let looks = 0; looks < 100_000; looks++) {
    const [waiting] = await backend.dueCallbacks(clock.nowMs() + 1e9, 1);
    await new Promise((resolve) => setImmediate(resolve));
    if (waiting?.attempts === attempt && waiting.dueAt === clock.nowMs() + pauseMs) return pauseMs;
  }
  throw new Error(`attempt ${attempt} does not fail`);
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let looks = 0; !(await holds()); looks++) {
    if (looks > 100_000) throw new Error("it does not come to that");
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const fixedSealer = () => createSealer(new Uint8Array(SECRET_KEY_BYTES));

describe("notices of a run", () => {
  it("say suspended, resumed and ended, each with its frame, signed", async () => {
    const clock = createFakeClock();
    const hook = await receiver();
    const model = strict(scripted(calls(call("highlight", {}, "a")), says("Done.")));
    const { engine, backend } = await harness({ model, mesh: meshWith(), clock });
    await engine.start();
    const { runId, sessionId } = await submit(engine, withCallback(hook.url));
    await hook.received(1);
    await engine.resumeRun(runId, answer(["a", "x"]), "key");
    await hook.received(3);
    const told = notices(hook.deliveries).sort((one, other) => one.frame.seq - other.frame.seq);
    expect(told.map(({ event }) => event)).toEqual(["run.suspended", "run.resumed", "run.ended"]);
    for (const notice of told) {
      const [frame] = await backend.frames(runId, { after: notice.frame.seq - 1, limit: 1 });
      expect(notice).toMatchObject({ run_id: runId, session_id: sessionId });
      expect(notice.frame).toEqual({
        protocol: 2,
        seq: frame?.seq,
        run_id: runId,
        type: frame?.type,
        segment_id: null,
        data: frame?.data,
      });
    }
    const nonces = new Set<unknown>();
    for (const { headers, body } of hook.deliveries) {
      const timestamp = headers["x-leafmesh-timestamp"];
      const nonce = headers["x-leafmesh-nonce"];
      expect(timestamp).toBe(String(Math.floor(clock.nowMs() / 1000)));
      expect(nonce).toMatch(/^[A-Za-z0-9_-]{8,128}$/);
      nonces.add(nonce);
      const mac = createHmac("sha256", SECRET).update(`${timestamp}.${nonce}.${body}`).digest("hex");
      expect(headers["x-leafmesh-signature"]).toBe(`sha256=${mac}`);
    }
    expect(nonces.size).toBe(3);
    await settled(backend, clock);
    await engine.stop({ graceMs: 0 });
  });

  it("report the end when nobody answers", async () => {
    const clock = createFakeClock();
    const hook = await receiver();
    const model = strict(scripted(calls(call("highlight", {}, "a"))));
    const { engine, backend } = await harness({ model, mesh: meshWith(), clock });
    await engine.start();
    await submit(engine, withCallback(hook.url));
    await hook.received(1);
    await settled(backend, clock);
    await clock.advance(60_001);
    await hook.received(2);
    expect(notices(hook.deliveries)[1]).toMatchObject({
      event: "run.ended",
      frame: {
        type: "run.end",
        data: { status: "timed_out", failure_class: "timeout", failure_detail: "client_tool_deadline" },
      },
    });
    await engine.stop({ graceMs: 0 });
  });

  it("are sent again until they arrive, with the same id and body, and not once more", async () => {
    const clock = createFakeClock();
    const hook = await receiver((nth) => (nth <= 2 ? 500 : 200));
    const model = strict(scripted(says("Done.")));
    const { engine, backend } = await harness({ model, mesh: meshWith(), clock });
    await engine.start();
    await submit(engine, withCallback(hook.url));
    for (const attempt of [1, 2]) await clock.advance(await failedAttempt(backend, clock, attempt));
    await hook.received(3);
    await settled(backend, clock);
    await clock.advance(100_000);
    expect(hook.deliveries).toHaveLength(3);
    expect(new Set(hook.deliveries.map(({ body }) => body)).size).toBe(1);
    await engine.stop({ graceMs: 0 });
  });

  it("are given up in the end", async () => {
    const clock = createFakeClock();
    const hook = await receiver(() => 503);
    const model = strict(scripted(says("Done.")));
    const { engine, backend, logger } = await harness({ model, mesh: meshWith(), clock });
    await engine.start();
    await submit(engine, withCallback(hook.url));
    for (let attempt = 1; attempt < MAX_ATTEMPTS; attempt++) {
      await clock.advance(await failedAttempt(backend, clock, attempt));
    }
    await hook.received(MAX_ATTEMPTS);
    await settled(backend, clock);
    expect(hook.deliveries).toHaveLength(MAX_ATTEMPTS);
    expect(JSON.stringify(logger)).not.toContain("token=t");
    await engine.stop({ graceMs: 0 });
  });

  it("follow no redirect", async () => {
    const clock = createFakeClock();
    const target = await receiver();
    const hook = await receiver(() => 307, { location: target.url });
    const model = strict(scripted(says("Done.")));
    const { engine, backend } = await harness({ model, mesh: meshWith(), clock });
    await engine.start();
    await submit(engine, withCallback(hook.url));
    await failedAttempt(backend, clock, 1);
    expect(target.deliveries).toEqual([]);
    await engine.stop({ graceMs: 0 });
  });
});

describe("a process that dies while it sends", () => {
  it("leaves the notice to the next one, which sends it at once; one that waits longer is sent in its time", async () => {
    const clock = createFakeClock();
    await using disk = await createDisk(clock);
    const more = { sealer: fixedSealer() };
    const first = await disk.open();
    const model = strict(scripted(says("One."), says("Two.")));
    const before = await harness({ model, mesh: meshWith(), clock, backend: first, more });
    await before.engine.start();
    // Nobody listens there, so both wait to be tried again.
    for (const message of ["one", "two"]) {
      await submit(before.engine, { ...withCallback("http://127.0.0.1:1/"), message });
    }
    await before.engine.stop({ graceMs: 0 });
    const [claimed, later] = await first.dueCallbacks(Number.MAX_SAFE_INTEGER, 10);
    if (!claimed || !later) throw new Error("there are no two notices");
    const patch = (dueAt: number) => ({ attempts: 1, dueAt });
    await first.commit([
      {
        kind: "callback.update",
        callbackId: claimed.id,
        version: claimed.version,
        patch: patch(clock.nowMs() + 20_000),
      },
      { kind: "callback.update", callbackId: later.id, version: later.version, patch: patch(clock.nowMs() + 60_000) },
    ]);
    const backend = await disk.open();
    const { engine } = await harness({ model: strict(scripted()), mesh: meshWith(), clock, backend, more });
    await engine.start();
    const attemptsOf = async (id: string) =>
      (await backend.dueCallbacks(Number.MAX_SAFE_INTEGER, 10)).find((callback) => callback.id === id)?.attempts;
    await until(async () => (await attemptsOf(claimed.id)) === 2);
    expect(await attemptsOf(later.id)).toBe(1);
    await until(() => clock.pendingTimers > 0);
    await clock.advance(60_000);
    await until(async () => (await attemptsOf(later.id)) === 2);
    await engine.stop({ graceMs: 0 });
  });
});

describe("an address that may not be called", () => {
  it.each([
    ["http://example.com/", /must begin with https/],
    ["https://user:pass@example.com/", /must be an address/],
    ["ftp://example.com/", /must be an address/],
    ["https://127.0.0.1/", /public internet/],
    ["https://2130706433/", /public internet/],
    ["https://0x7f.1/", /public internet/],
    ["https://[::ffff:127.0.0.1]/", /public internet/],
    ["https://169.254.169.254/", /public internet/],
    ["https://10.0.0.1/", /public internet/],
  ])("%s is refused with the run", async (url, why) => {
    const { engine, backend } = await harness({ model: strict(scripted()), mesh: meshWith([]) });
    await engine.start();
    await expect(submit(engine, withCallback(url))).rejects.toThrow(why);
    expect(await backend.runs({})).toEqual([]);
    await engine.stop({ graceMs: 0 });
  });

  it("is refused where nothing could sign the notices", async () => {
    const { engine } = await harness({ model: strict(scripted()), mesh: clientMesh() });
    await engine.start();
    await expect(submit(engine, withCallback("https://example.com/"))).rejects.toThrow(/signs no notices/);
    await engine.stop({ graceMs: 0 });
  });

  it("by its name is given up at once, and nothing is sent", async () => {
    const clock = createFakeClock();
    const { engine, backend } = await harness({
      model: strict(scripted(says("Done."))),
      mesh: meshWith([]),
      clock,
    });
    await engine.start();
    await submit(engine, withCallback("https://localhost/hook"));
    await settled(backend, clock);
    await engine.stop({ graceMs: 0 });
  });
});
