import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSseReader, SseEventTooLarge } from "./sse-reader.ts";

function read(chunks: readonly Uint8Array[], maxEventBytes = 1_000_000): string[] {
  const events: string[] = [];
  const reader = createSseReader({ maxEventBytes, onData: (data) => events.push(data) });
  for (const chunk of chunks) reader.push(chunk);
  reader.end();
  return events;
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe("createSseReader", () => {
  it.each([
    ["line feeds", "data: a\n\ndata: b\n\n", ["a", "b"]],
    ["carriage returns and line feeds", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
    ["carriage returns alone", "data: a\r\rdata: b\r\r", ["a", "b"]],
    ["no space after the colon", "data:a\n\n", ["a"]],
    ["only the first space is removed", "data:  a\n\n", [" a"]],
    ["several data lines make one event", "data: a\ndata: b\n\n", ["a\nb"]],
    ["an empty data line counts", "data: a\ndata:\ndata\n\n", ["a\n\n"]],
    ["comments and other fields are skipped", ": ping\nevent: x\nid: 1\nretry: 5\ndata: a\n\n: bye\n\n", ["a"]],
    ["a field that only starts like data", "database: a\ndata: b\n\n", ["b"]],
    ["blank lines without data", "\n\n\ndata: a\n\n\n\n", ["a"]],
    ["a byte order mark at the start", "\uFEFFdata: a\n\n", ["a"]],
    ["a colon and a newline inside the data", 'data: {"a":"b: c"}\n\n', ['{"a":"b: c"}']],
    ["the last blank line is missing", "data: a\n\ndata: [DONE]\n", ["a", "[DONE]"]],
    ["the last line end is missing", "data: a\n\ndata: [DONE]", ["a", "[DONE]"]],
    ["nothing at all", "", []],
  ])("reads %s", (_what, text, events) => {
    expect(read([bytes(text)])).toEqual(events);
  });

  it("hands an event out as soon as its blank line is there", () => {
    const events: string[] = [];
    const reader = createSseReader({ maxEventBytes: 100, onData: (data) => events.push(data) });
    reader.push(bytes("data: a\n"));
    expect(events).toEqual([]);
    reader.push(bytes("\n"));
    expect(events).toEqual(["a"]);
    reader.push(bytes("data: b\r"));
    reader.push(bytes("\n\r"));
    expect(events).toEqual(["a", "b"]);
    reader.push(bytes("\ndata: c\n\n"));
    expect(events).toEqual(["a", "b", "c"]);
  });

  it("gives the same events however the bytes are cut", () => {
    const lineEnd = fc.constantFrom("\n", "\r\n", "\r");
    const text = fc.string({ unit: "grapheme", maxLength: 40 }).map((value) => value.replaceAll(/[\r\n]/g, " "));
    const line = fc.oneof(
      text.map((value) => `data: ${value}`),
      text.map((value) => `: ${value}`),
      text.map((value) => `event: ${value}`),
      fc.constant(""),
      fc.constant("data"),
    );
    const stream = fc
      .array(fc.tuple(line, lineEnd), { maxLength: 30 })
      .map((lines) => lines.map(([content, end]) => content + end).join(""));
    fc.assert(
      fc.property(stream, fc.array(fc.nat({ max: 20 }), { maxLength: 60 }), (content, sizes) => {
        const whole = bytes(content);
        const chunks: Uint8Array[] = [];
        let from = 0;
        for (const size of sizes) {
          chunks.push(whole.slice(from, from + size));
          from += size;
        }
        chunks.push(whole.slice(from));
        expect(read(chunks)).toEqual(read([whole]));
        expect(read([...whole].map((byte) => Uint8Array.of(byte)))).toEqual(read([whole]));
      }),
      { numRuns: 300 },
    );
  });

  it("returns what was sent, whatever characters it holds", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" })), (values) => {
        const sent = values.map((value) => JSON.stringify({ value }));
        expect(read([bytes(sent.map((data) => `data: ${data}\n\n`).join(""))])).toEqual(sent);
      }),
    );
  });

  it("holds no more of an event than it may", () => {
    expect(() => read([bytes(`data: ${"x".repeat(90)}`), bytes("y".repeat(20))], 100)).toThrow(SseEventTooLarge);
    expect(() => read([bytes(`data: ${"x".repeat(101)}\n\n`)], 100)).toThrow(SseEventTooLarge);
    expect(() => read([bytes(`data: ${"x".repeat(60)}\n`.repeat(2))], 100)).toThrow(SseEventTooLarge);
    expect(() => read([bytes("data\n".repeat(10_001))])).toThrow("more than 10000 lines");
    expect(read([bytes(`data: ${"x".repeat(90)}\n\n`.repeat(5))], 100)).toHaveLength(5);
    expect(read([bytes("data\n".repeat(10_000)), bytes("\ndata: a\n\n")])).toHaveLength(2);
  });
});
