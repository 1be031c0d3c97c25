import { describe, expect, test } from "vitest";
import { renderMeshReference } from "./mesh-reference.ts";
import { brokenMesh, exampleMesh, referencesMesh, sharedMesh } from "./reference-prose.ts";
import { headlines, loadText, testRegistry } from "./test-support.ts";

const page = renderMeshReference(testRegistry);

describe("the reference of the mesh file", () => {
  test.each([
    ["| `model` | text | **required** |", "a required field"],
    ["| `approval` | `ask`, `silent` | `ask` |", "choices and their default"],
    ["| `join_timeout` | number, more than 0, at most 604800 | 60, with `approval: silent` 30 |", "a default in words"],
    ["| `max_tool_calls_per_message` | whole number, 0 to 20 | `5` |", "bounds"],
    ["| `allow` | list of texts | all |", "a list"],
    ["| [`device`](#device) | mapping | no devices |", "a section of its own"],
    [
      "| `service_account` | text | **required** | The service account's key as JSON. Secret. |",
      "a secret of a provider",
    ],
    ["| [`mqtt`](#mqtt) | MQTT broker | yes | yes | yes |", "a provider that is notifier and room"],
    ["| [`sms`](#sms) | Text message | yes | no |  |", "a notifier that is never silent"],
    ["| [`pusher`](#pusher) | Pusher Channels |  |  | yes |", "a room"],
    ["| Rooms are topics below &lt;prefix>/room/. |", "what looks like a tag"],
    ["Needs `npm install sms-sdk sms-extra`.", "what a provider needs"],
    ["It has no fields beside `provider`.", "a provider without fields"],
  ])("holds %j: %s", (text) => {
    expect(page).toContain(text);
  });

  test("leaves no key without a meaning", () => {
    const rows = page.split("\n").filter((line) => /^\| (`|\[`)/.test(line));
    expect(rows.filter((row) => /\|\s*\|$/.test(row) && !row.includes("](#"))).toEqual([]);
    expect(rows.length).toBeGreaterThan(60);
  });

  test("links to headings that are there", () => {
    const headings = new Set(
      [...page.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) => title.toLowerCase().replaceAll(" ", "-")),
    );
    const targets = [...page.matchAll(/\]\(#([^)]+)\)/g)].map(([, target]) => target);
    expect(targets.filter((target) => target === undefined || !headings.has(target))).toEqual([]);
    expect(targets.length).toBeGreaterThan(10);
  });

  test("shows what the loader says, word for word", () => {
    const said = headlines(loadText(brokenMesh));
    expect(said).toHaveLength(3);
    for (const line of said) expect(page).toContain(line);
  });

  test("is the same every time and ends in one line end", () => {
    expect(renderMeshReference(testRegistry)).toBe(page);
    expect(page).toMatch(/[^\n]\n$/);
  });
});

test.each([
  ["the example", exampleMesh],
  ["the one with references", referencesMesh],
  ["the one with anchors", sharedMesh],
])("%s is valid without a word", (_, mesh) => {
  const loaded = loadText(mesh, {
    env: { SUPPORT_APP_KEY: "a-key-of-the-app", OPENAI_API_KEY: "k" },
    readFile: () => ({ ok: true, text: "key\n" }),
  });
  expect(headlines(loaded)).toEqual([]);
});
