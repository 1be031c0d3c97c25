/** Event streams whose client is cut off, slow, or does not read at all. Prints what it cost. */
import { readFileSync } from "node:fs";
import { type OpenAIServer, startOpenAIServer } from "@leafmesh/testkit";
import { startTcpProxy, type TcpProxy } from "@leafmesh/testkit/tcp-proxy";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningMesh, startMesh } from "../support/mesh.ts";
import { killAll } from "../support/process.ts";
import { openRawStream, type RawStream } from "../support/raw-stream.ts";

const LARGE_TEXT = "x".repeat(100_000);
const oneTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

let model: OpenAIServer;
let mesh: RunningMesh;

beforeAll(async () => {
  model = await startOpenAIServer({
    handler: ({ messages }) => {
      const said = String(messages.at(-1)?.content);
      return { content: said.startsWith("large") ? `${said} ${LARGE_TEXT}` : `You said: ${said}` };
    },
  });
  const yaml = `name: streams
models:
  test: { base_url: "${model.baseUrl}", api_key: none }
agents:
  helper: { model: test/any, prompt: Do as you are told. }
`;
  mesh = await startMesh({ yaml, args: ["--log-level", "warn"] });
});
afterAll(async () => {
  await mesh?.stop();
  await killAll();
  await model?.close();
});

async function openSession(): Promise<{ sessionId: string; path: string }> {
  const { body } = await mesh.call<{ session_id: string }>("POST", "/api/sessions", {});
  return { sessionId: body.session_id, path: `/api/sessions/${body.session_id}/stream` };
}

/** Says it and waits for the reply. */
async function say(sessionId: string, query: string): Promise<void> {
  const path = `/api/sessions/${sessionId}/query`;
  const { status, body } = await mesh.call<{ status: string }>("POST", path, { query, wait: true });
  expect([status, body.status]).toEqual([200, "succeeded"]);
}

const rssMb = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${mesh.pid}/status`, "utf8"))?.[1]) / 1024;
const idsOf = (stream: RawStream): number[] => stream.events().map(({ id }) => id);
const isUpTo = (last: number) => (ids: readonly number[]) => ids.at(-1) === last;

describe("a stream that is cut", () => {
  let proxy: TcpProxy;
  beforeAll(async () => {
    proxy = await startTcpProxy(mesh.port);
  });
  afterAll(() => proxy?.stop());

  it("R-30 goes on behind Last-Event-ID: cut at, before and after every frame's end, nothing is missing or comes twice", async () => {
    const { sessionId, path } = await openSession();
    for (const count of oneTo(8)) await say(sessionId, `message ${count}`);
    const whole = openRawStream(mesh.port, path);
    await whole.until((ids) => ids.length >= 8 * 5);
    await whole.until((ids) => isUpTo(ids.length)(ids));
    const events = whole.events();
    const raw = whole.bytes();
    whole.socket.destroy();
    expect(events.map(({ id }) => id)).toEqual(oneTo(events.length));

    const ends: number[] = [];
    for (let at = raw.indexOf("\n\n"); at >= 0; at = raw.indexOf("\n\n", at + 1)) ends.push(at + 2);
    let cuts = 0;
    for (const bytesDown of ends.flatMap((end) => [end - 1, end, end + 5])) {
      if (bytesDown > raw.length) continue;
      proxy.cutAfter({ bytesDown, how: cuts++ % 2 === 0 ? "rst" : "fin" });
      const first = openRawStream(proxy.port, path);
      await first.closed;
      const seen = first.events();
      const second = openRawStream(mesh.port, path, seen.at(-1)?.id ?? 0);
      if (seen.length < events.length) await second.until(isUpTo(events.length));
      second.socket.destroy();
      expect([...seen, ...second.events()]).toEqual(events);
    }
    expect(cuts).toBeGreaterThan(100);
    console.log(`R-30: ${cuts} cuts over ${events.length} events; 0 gaps, 0 repeats`);
  });

  it("R-33 at 5 kB/s in pieces of 5 bytes, arrives whole and holds up nobody", async () => {
    const { sessionId, path } = await openSession();
    for (const count of oneTo(6)) await say(sessionId, `message ${count}`);
    const fast = openRawStream(mesh.port, path);
    await fast.until((ids) => ids.length >= 6 * 5);
    proxy.set({ bytesPerSecond: 5_000, pieceBytes: 5 });
    try {
      const slow = openRawStream(proxy.port, path);
      await slow.until((ids) => ids.length > 0);
      const startedAt = performance.now();
      await say(sessionId, "and one more");
      const tookMs = performance.now() - startedAt;
      await fast.until((ids) => ids.length >= 7 * 5);
      const last = idsOf(fast).at(-1) ?? 0;
      expect(idsOf(slow).length).toBeLessThan(last);
      await slow.until(isUpTo(last));
      expect(slow.events()).toEqual(fast.events());
      expect(tookMs).toBeLessThan(2_000);
      console.log(`R-33: ${last} events over a slow link, complete; a message meanwhile took ${Math.round(tookMs)} ms`);
      slow.socket.destroy();
    } finally {
      proxy.set({ bytesPerSecond: 0, pieceBytes: 0 });
      fast.socket.destroy();
    }
  });
});

describe("a long history", () => {
  let sessionId: string;
  let path: string;

  beforeAll(async () => {
    ({ sessionId, path } = await openSession());
    for (const count of oneTo(20)) await say(sessionId, `large ${count}`);
  });

  it("reaches a client that reads in one go, however large it is", async () => {
    const reader = openRawStream(mesh.port, path);
    await reader.until((ids) => ids.length >= 20 * 5);
    expect(idsOf(reader)).toEqual(oneTo(idsOf(reader).length));
    console.log(`history: ${idsOf(reader).length} events, ${Math.round(reader.bytes().length / 1e6)} MB, in one go`);
    reader.socket.destroy();
  });

  it("S-33 does not pile up for clients that do not read: memory stays flat, others go on", async () => {
    // The same work with readers that read, first: what the mesh takes for itself while it works is not the stalled ones' doing.
    const reading = oneTo(40).map(() => openRawStream(mesh.port, path));
    for (const count of oneTo(10)) await say(sessionId, `large, for readers ${count}`);
    await Promise.all(reading.map((stream) => stream.until((ids) => ids.length >= 30 * 5)));
    for (const { socket } of reading) socket.destroy();

    const before = rssMb();
    const stalled = oneTo(40).map(() => openRawStream(mesh.port, path));
    await Promise.all(stalled.map((stream) => stream.until((ids) => ids.length > 0)));
    for (const { socket } of stalled) socket.pause();
    const healthy = openRawStream(mesh.port, path);
    await healthy.until((ids) => ids.length >= 30 * 5);
    let worstMs = 0;
    for (const count of oneTo(20)) {
      const startedAt = performance.now();
      await say(sessionId, `large, more ${count}`);
      worstMs = Math.max(worstMs, performance.now() - startedAt);
    }
    await healthy.until((ids) => ids.length >= 50 * 5);
    const grownMb = rssMb() - before;
    const end = idsOf(healthy).at(-1) ?? 0;
    healthy.socket.destroy();
    const [one] = stalled;
    const seen = one ? idsOf(one) : [];
    for (const { socket } of stalled) socket.destroy();
    const back = openRawStream(mesh.port, path, seen.at(-1));
    await back.until(isUpTo(end));
    expect([...seen, ...idsOf(back)]).toEqual(oneTo(end));
    back.socket.destroy();
    console.log(
      `S-33: 40 stalled readers of ${Math.round((end * LARGE_TEXT.length) / 2e6)} MB grew the mesh by ` +
        `${Math.round(grownMb)} MB; slowest message meanwhile ${Math.round(worstMs)} ms`,
    );
    expect(grownMb).toBeLessThan(120);
    expect(worstMs).toBeLessThan(5_000);
  });
});
