/** Notices of events as the app meets them, over real sockets: an ask's tool leaves them beside its event. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { deviceNoticeSchema, Secret } from "@leafmesh/protocol";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, describe, expect, it } from "vitest";
import { createSession } from "../../testing/stores.ts";
import { clientMesh, strict } from "../client-tools/test-runs.ts";
import { createDisk, harness, scripted } from "../runs/testing/index.ts";
import { createSealer, SECRET_KEY_BYTES } from "../security/sealer.ts";
import type { Backend, Write } from "../storage/contract.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Answers with the statuses in their order, the last one from then on. */
async function app(...statuses: readonly number[]) {
  const bodies: string[] = [];
  const waiting = new Set<() => void>();
  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    bodies.push(Buffer.concat(chunks).toString("utf8"));
    response.writeHead(statuses[Math.min(bodies.length, statuses.length) - 1] ?? 204).end();
    for (const look of [...waiting]) look();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  const received = (count: number) =>
    new Promise<void>((resolve) => {
      const look = (): void => void (bodies.length >= count && resolve());
      waiting.add(look);
      look();
    });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, bodies, received };
}

function meshWith(url: string | undefined) {
  const mesh = clientMesh();
  return { ...mesh, server: { ...mesh.server, callbacks: { allow: [], secret: new Secret("s"), url } } };
}

const event = { type: "device.token_dead", payload: { device: "phone-7", notifier: "phones" } } as const;

/** A conversation with a run that is over. */
async function finishedRun(backend: Backend): Promise<void> {
  const writes: readonly Write[] = [
    createSession("s"),
    {
      kind: "run.create",
      run: {
        id: "r",
        sessionId: "s",
        agent: "a",
        status: "succeeded",
        input: "",
        createdAt: 1,
        deadlineAt: 2,
        version: 1,
      },
    },
  ];
  expect(await backend.commit(writes)).toMatchObject({ committed: true });
}

const sealer = () => createSealer(new Uint8Array(SECRET_KEY_BYTES));

describe("a notice of an event", () => {
  it("is not written where no address was given", async () => {
    const { engine } = await harness({ model: strict(scripted()), mesh: meshWith(undefined) });
    expect(engine.notices.writesFor(event, "r")).toEqual([]);
    await engine.stop({ graceMs: 0 });
  });

  it("is sent by the next process when the first dies before, and again until it is taken, always the same", async () => {
    const clock = createFakeClock();
    const hook = await app(503, 204);
    await using disk = await createDisk(clock);
    const more = { sealer: sealer() };
    const first = await disk.open();
    const before = await harness({ model: strict(scripted()), mesh: meshWith(hook.url), clock, backend: first, more });
    await finishedRun(first);
    expect(await first.commit(before.engine.notices.writesFor(event, "r"))).toMatchObject({ committed: true });

    const backend = await disk.open();
    const { engine } = await harness({ model: strict(scripted()), mesh: meshWith(hook.url), clock, backend, more });
    await engine.start();
    await hook.received(1);
    while (hook.bodies.length < 2) await clock.advance(1_000);
    await engine.stop({ graceMs: 0 });
    const [once, again] = hook.bodies.map((body) => deviceNoticeSchema.parse(JSON.parse(body)));
    expect(again).toEqual(once);
    expect(once).toMatchObject({ event: "device.token_dead", run_id: "r", session_id: "s", device: "phone-7" });
    expect(once?.at).toBeCloseTo(1_800_000_000, 0);
  });

  it.each([
    ["the address was taken out of the file", undefined],
    ["the address is one that holds credentials of the machine", "https://169.254.169.254/hook"],
    ["the address is far and without TLS", "http://8.8.8.8/hook"],
  ])("is given up, and goes nowhere, when %s", async (_when, url) => {
    const clock = createFakeClock();
    const { engine, backend } = await harness({ model: strict(scripted()), mesh: meshWith(url), clock });
    await finishedRun(backend);
    const other = await harness({ model: strict(scripted()), mesh: meshWith("https://app.example/"), clock });
    await backend.commit(other.engine.notices.writesFor(event, "r"));
    await engine.start();
    while ((await backend.dueCallbacks(clock.nowMs() + 1e9, 1)).length > 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await engine.stop({ graceMs: 0 });
    await other.engine.stop({ graceMs: 0 });
  });
});
