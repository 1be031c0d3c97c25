import { describe, expect, it } from "vitest";
import { type CallEntry, parseCallEntry } from "./entries.ts";

const started: CallEntry = { id: "s/a", at: 1, state: "started" };
const answered: CallEntry = { id: "s/a", at: 1, state: "answered", answer: { status: "ok", result: { a: [1, null] } } };

describe("an entry of a store that something else may have written to", () => {
  it.each<[string, CallEntry]>([
    ["started", started],
    ["answered", answered],
    ["answered with an error", { ...answered, answer: { status: "error", code: "c", message: "m" } }],
    [
      "answered with an image",
      { ...answered, answer: { status: "ok", result: {}, image: { mediaType: "image/png", base64: "AQ" } } },
    ],
    ["closed", { ...started, state: "closed" }],
  ])("is taken: %s", (_what, entry) => expect(parseCallEntry(JSON.parse(JSON.stringify(entry)))).toEqual(entry));

  it.each([
    ["nothing", undefined],
    ["a text", "started"],
    ["another state", { ...started, state: "done" }],
    ["no id", { ...started, id: undefined }],
    ["no time", { ...started, at: "now" }],
    ["an answer without its answer", { ...answered, answer: undefined }],
    ["an answer of another kind", { ...answered, answer: { status: "late" } }],
  ])("is not taken: %s", (_what, value) => expect(parseCallEntry(value)).toBeUndefined());
});
