/** Streams: whatever connections do, a reader sees every frame once and in order. */
import { createFakeClock } from "@leafmesh/testkit";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHastyClock } from "../testing/hasty-clock.ts";
import { MeshDouble } from "../testing/mesh-double.ts";
import { createClient } from "./client.ts";
import type { ConnectionState } from "./follow.ts";
import type { MeshEvent } from "./mesh-events.ts";

/** One connection of the stream, as it goes wrong. */
type Plan =
  | { readonly kind: "network_error" }
  | { readonly kind: "status"; readonly status: number }
  | {
      readonly kind: "stream";
      /** Bytes that arrive before the connection breaks; beyond the end it ends there. */
      readonly bytes: number;
      readonly chunk: number;
      /** How many frames before the one that was asked for it begins, as a server does that knows no better. */
      readonly early: number;
      /** A frame that it leaves out, unless an earlier connection did. */
      readonly without: number | undefined;
    };

const plan: fc.Arbitrary<Plan> = fc.oneof(
  fc.record({ kind: fc.constant("network_error" as const) }),
  fc.record({ kind: fc.constant("status" as const), status: fc.constantFrom(408, 429, 500, 502, 503) }),
  fc.record({
    kind: fc.constant("stream" as const),
    bytes: fc.nat(3_000),
    chunk: fc.integer({ min: 1, max: 400 }),
    early: fc.nat(3),
    without: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
  }),
);

const text = fc.string({ unit: "grapheme", maxLength: 12 });

function bodyOf(bytes: Uint8Array, chunk: number, complete: boolean): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at < bytes.length) {
        controller.enqueue(bytes.slice(at, at + chunk));
        at += chunk;
      } else if (complete) controller.close();
      else controller.error(new TypeError("terminated"));
    },
  });
}

const encode = (value: string) => new TextEncoder().encode(value);

describe("a conversation's events, over any sequence of connections", () => {
  it("are those of one connection that was never cut", { timeout: 60_000 }, async () => {
    const property = fc.asyncProperty(
      fc.array(text, { maxLength: 12 }),
      fc.array(plan, { maxLength: 8 }),
      fc.nat(12),
      async (texts, plans, skip) => {
        const after = Math.min(skip, texts.length);
        const stored = texts.map((content, index) => ({
          seq: index + 1,
          frame: { type: "message.received", payload: { run_id: "run_1", content }, ts: index },
        }));
        const remaining = [...plans];
        const leftOut = new Set<number>();
        const fetch: typeof globalThis.fetch = async (_url, init) => {
          const next = remaining.shift();
          const asked = Number(new Headers(init?.headers).get("last-event-id") ?? 0);
          if (next?.kind === "network_error") throw new TypeError("fetch failed");
          if (next?.kind === "status") return new Response("{}", { status: next.status });
          const without = next?.without === undefined || leftOut.has(next.without) ? undefined : next.without;
          if (without !== undefined) leftOut.add(without);
          const shown = stored.filter(({ seq }) => seq > asked - (next?.early ?? 0) && seq !== without);
          const wire = shown
            .map(({ seq, frame }) => `id: ${seq}\ndata: ${JSON.stringify(frame)}\n\n: heartbeat\n\n`)
            .join("");
          const end = `data: ${JSON.stringify({ type: "stream_end", payload: { reason: "session_ended" }, ts: 0 })}\n\n`;
          const bytes = encode(next ? wire : wire + end);
          const part = next ? bytes.slice(0, next.bytes) : bytes;
          return new Response(bodyOf(part, next?.chunk ?? 64, part.length === bytes.length), {
            headers: { "content-type": "text/event-stream; charset=utf-8" },
          });
        };
        const client = createClient({ url: "http://mesh", fetch, clock: createHastyClock(20_000), random: () => 0 });
        const seen: MeshEvent[] = [];
        for await (const event of client.session("s").events({ after })) seen.push(event);
        expect(seen.flatMap((event) => (event.type === "message.received" ? [event.seq] : []))).toEqual(
          stored.map(({ seq }) => seq).filter((seq) => seq > after),
        );
        expect(seen.flatMap((event) => (event.type === "message.received" ? [event.payload.content] : []))).toEqual(
          texts.slice(after),
        );
        expect(seen.at(-1)?.type).toBe("stream_end");
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });
});

describe("a stream", () => {
  const PATH = "/api/sessions/s/stream";
  let mesh: MeshDouble;
  const client = (clock = createHastyClock(20_000)) => createClient({ url: mesh.url, clock, random: () => 0 });
  const message = (content: string) => ({ type: "message.received", payload: { run_id: "r", content }, ts: 1 });
  const call = (callId: string) => ({
    type: "device_tool_call",
    payload: { call_id: callId, call_token: "t", tool_id: "device_x", args: {}, expires_at: 1 },
    ts: 1,
  });
  const settled = (callId: string) => ({
    type: "device_tool_call.settled",
    payload: { call_id: callId, status: "answered" },
    ts: 1,
  });

  beforeEach(async () => {
    mesh = await new MeshDouble().start();
  });
  afterEach(() => mesh.close());

  it("comes back where it was, and says how it stands", async () => {
    mesh.append(PATH, 1, message("one"));
    const states: string[] = [];
    const stop = new AbortController();
    const seen: number[] = [];
    const onConnection = ({ state }: ConnectionState) => states.push(state);
    for await (const event of client().session("s").events({ onConnection, signal: stop.signal })) {
      seen.push(event.seq ?? 0);
      if (event.seq === 1) {
        mesh.cut(PATH);
        mesh.append(PATH, 2, message("two"));
      } else stop.abort();
    }
    expect(seen).toEqual([1, 2]);
    expect(mesh.connections.map(({ after }) => after)).toEqual([0, 1]);
    expect(states).toEqual(["connecting", "open", "lost", "connecting", "open"]);
  });

  it("notices a connection on which nobody is left", async () => {
    const clock = createFakeClock();
    mesh.append(PATH, 1, message("one"));
    const iterator = createClient({ url: mesh.url, clock, random: () => 0 })
      .session("s")
      .events()
      [Symbol.asyncIterator]();
    expect((await iterator.next()).value).toMatchObject({ seq: 1 });
    const next = iterator.next();
    await clock.advance(39_000);
    expect(mesh.connections).toHaveLength(1);
    await clock.advance(1_000);
    await clock.advance(500);
    await mesh.until(() => mesh.connections.length === 2);
    mesh.append(PATH, 2, message("two"));
    expect((await next).value).toMatchObject({ seq: 2 });
    await iterator.return?.();
  });

  it("does not mistake a reader that takes its time for a silent mesh", async () => {
    const clock = createFakeClock();
    for (const seq of [1, 2]) mesh.append(PATH, seq, message("x"));
    const iterator = createClient({ url: mesh.url, clock, random: () => 0 })
      .session("s")
      .events()
      [Symbol.asyncIterator]();
    await iterator.next();
    await clock.advance(3_600_000);
    expect((await iterator.next()).value).toMatchObject({ seq: 2 });
    expect(mesh.connections).toHaveLength(1);
    await iterator.return?.();
  });

  it("rejects when the mesh refuses for good", async () => {
    const refusing = createClient({
      url: mesh.url,
      fetch: async () =>
        Response.json({ error: { code: "no_such_session", message: "There is none." } }, { status: 404 }),
    });
    const iterator = refusing.session("s").events()[Symbol.asyncIterator]();
    await expect(iterator.next()).rejects.toMatchObject({ status: 404, code: "no_such_session" });
  });

  it("rejects what is no event stream", async () => {
    const other = createClient({ url: mesh.url, fetch: async () => Response.json({}) });
    const iterator = other.session("s").events()[Symbol.asyncIterator]();
    await expect(iterator.next()).rejects.toMatchObject({ code: "bad_answer" });
  });

  it("waits as long as the mesh asks for", async () => {
    const states: ConnectionState[] = [];
    let tries = 0;
    const stop = new AbortController();
    const busy = createClient({
      url: mesh.url,
      clock: createHastyClock(20_000),
      fetch: async () => {
        tries += 1;
        if (tries === 2) stop.abort();
        return Response.json(
          { error: { code: "too_many_streams", message: "m" } },
          { status: 503, headers: { "retry-after": "7" } },
        );
      },
    });
    for await (const _ of busy
      .session("s")
      .events({ signal: stop.signal, onConnection: (state) => states.push(state) })) {
      // Nothing comes.
    }
    expect(states[1]).toMatchObject({ state: "lost", retryInMs: 7_000, error: { code: "too_many_streams" } });
  });

  it("is not led past an open call by what comes after it", async () => {
    mesh.append(PATH, 1, message("one"));
    mesh.append(PATH, 2, call("call_a"));
    mesh.append(PATH, 3, message("three"));
    const stop = new AbortController();
    const events = client().session("s").events({ signal: stop.signal });
    const cursors: number[] = [];
    for await (const event of events) {
      cursors.push(events.cursor);
      if (event.seq === 3 && mesh.connections.length === 1) mesh.cut(PATH);
      if (event.seq === 3) mesh.append(PATH, 4, settled("call_a"));
      if (event.seq === 4) mesh.append(PATH, 5, message("five"));
      if (event.seq === 5) stop.abort();
    }
    // Before each event: what was handled, but never past the open call; once it is settled the cursor catches up.
    expect(cursors).toEqual([0, 1, 1, 3, 4]);
    expect(mesh.connections.map(({ after }) => after)).toEqual([0, 1]);
  });

  it("passes on what it does not know by name", async () => {
    mesh.append(PATH, 1, { type: "from.the.future", payload: { x: 1 }, ts: 5 });
    mesh.append(PATH, 2, { type: "message.received", payload: { run_id: "r", content: "c", more: true }, ts: 5 });
    const iterator = client().session("s").events()[Symbol.asyncIterator]();
    expect((await iterator.next()).value).toEqual({
      type: "unknown",
      name: "from.the.future",
      payload: { x: 1 },
      seq: 1,
      ts: 5,
    });
    expect((await iterator.next()).value).toMatchObject({ type: "message.received", payload: { content: "c" } });
    await iterator.return?.();
  });
});

describe("a run's frames", () => {
  const PATH = "/runs/r/stream";
  const frame = (seq: number, type: string, data: object = {}) => ({
    protocol: 2,
    seq,
    run_id: "r",
    type,
    segment_id: null,
    data,
  });

  it("end with run.end, begin at the first one, and never lead past an open suspension", async () => {
    const mesh = await new MeshDouble().start();
    const client = createClient({ url: mesh.url, clock: createHastyClock(20_000), random: () => 0 });
    mesh.append(PATH, 1, frame(1, "run.start"));
    mesh.append(PATH, 2, frame(2, "suspend"));
    const frames = client.run("r").frames();
    const seen: string[] = [];
    const cursors: number[] = [];
    for await (const { seq, type } of frames) {
      seen.push(`${seq} ${type}`);
      cursors.push(frames.cursor);
      if (seq === 2) {
        mesh.cut(PATH);
        mesh.append(PATH, 3, frame(3, "resume"));
        mesh.append(PATH, 4, frame(4, "run.end"));
      }
    }
    expect(seen).toEqual(["1 run.start", "2 suspend", "3 resume", "4 run.end"]);
    expect(cursors).toEqual([0, 1, 2, 3]);
    expect(mesh.connections.map(({ after }) => after)).toEqual([0, 1]);
    expect(frames.cursor).toBe(4);
    await mesh.close();
  });
});
