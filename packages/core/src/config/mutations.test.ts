// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are written into the mesh
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { renderDiagnostics } from "./render.ts";
import { everythingShown, loadText } from "./test-support.ts";

vi.setConfig({ testTimeout: 60_000 });

const SECRET = "MARKED-S3CRET-7f3a";

const mesh = `name: phone-support
models:
  local: { base_url: "http://127.0.0.1:11434/v1", api_key: "\${SECRET}" }
connections:
  my_phones:
    provider: mqtt
    url: mqtt://b
    username: mesh
    password: "\${SECRET}"
    room_topic_prefix: rooms
  fcm: &fcm { provider: fcm, service_account: "\${file:./fcm.json}" }
  again: { <<: *fcm, sandbox: true }
agents:
  phone_helper: &helper
    model: gpt-4o-mini
    temperature: 0.2
    prompt: |
      Help the customer with their phone.
    device: { connection: my_phones, room: my_phones, approval: ask, allow: ["read_*"], deny: [wipe] }
  other: { <<: *helper, model: local/llama }
entry_points:
  - { name: chat, target: phone_helper }
server:
  port: \${PORT:-18820}
  api_keys: ["\${SECRET}"]
storage: { url: "sqlite:.leafmesh/mesh.db", session_ttl: 7d }
`;

const load = (text: string | Uint8Array) =>
  loadText(text, { env: { SECRET, OPENAI_API_KEY: SECRET }, readFile: () => ({ ok: true, text: SECRET }) });

const snippet = fc.oneof(
  fc.string({ unit: "binary", maxLength: 6 }),
  fc.constantFrom(
    ...[
      "\n",
      "\n  ",
      "\t",
      ": ",
      "- ",
      "{",
      "}",
      "[",
      "]",
      ",",
      "'",
      '"',
      "|",
      ">",
      "&a ",
      "*a",
      "*fcm",
      "<<: *helper",
      "!!x ",
      "#",
    ],
    ...[
      "${",
      "${NOPE}",
      "${PORT}",
      "${A:b}",
      "$${",
      "}",
      "---\n",
      "%YAML 1.1\n",
      "__proto__: 1\n",
      "? ",
      "null",
      "~",
      "1e999",
      ".nan",
      "\0",
    ],
  ),
);

/** Puts text into the mesh and takes some out, a few times. */
const mutated = fc
  .array(fc.record({ at: fc.nat(), remove: fc.nat({ max: 40 }), insert: snippet }), { minLength: 1, maxLength: 4 })
  .map((edits) =>
    edits.reduce((text, { at, remove, insert }) => {
      const place = at % (text.length + 1);
      return text.slice(0, place) + insert + text.slice(place + remove);
    }, mesh),
  );

function expectAnAnswer(text: string | Uint8Array): void {
  const loaded = load(text);
  if (loaded.ok) expect(loaded.mesh.entryPoints.length).toBeGreaterThan(0);
  else expect(loaded.diagnostics.length).toBeGreaterThan(0);
  const lines = Buffer.from(text)
    .toString("utf8")
    .replace(/^\ufeff/, "")
    .split("\n");
  for (const found of [...(loaded.ok ? [] : loaded.diagnostics), ...loaded.warnings]) {
    expect(found.line).toBeGreaterThanOrEqual(1);
    expect(found.line).toBeLessThanOrEqual(lines.length);
    expect(found.column).toBeGreaterThanOrEqual(1);
    expect(found.column).toBeLessThanOrEqual((lines[found.line - 1]?.length ?? 0) + 1);
    expect(found.endColumn).toBeGreaterThan(found.column);
    expect(renderDiagnostics([found])).not.toMatch(/\p{Cc}(?<!\n)|undefined|\[object/u);
  }
}

describe("whatever is done to a valid mesh", () => {
  test("the mesh is valid to begin with", () => {
    expect(load(mesh).ok).toBe(true);
  });

  test("there is an answer with places inside the file", () => {
    fc.assert(fc.property(mutated, expectAnAnswer), { numRuns: 500 });
  });

  test("the values of variables and files are in no finding", () => {
    fc.assert(
      fc.property(mutated, (text) => {
        const loaded = load(text);
        // Where a mutation leads a variable into a field that is no secret, the mesh itself may hold it.
        if (!loaded.ok) expect(everythingShown(loaded)).not.toContain(SECRET);
      }),
      { numRuns: 200 },
    );
  });

  test("any part of it is answered", () => {
    for (let length = 0; length < mesh.length; length += 3) expectAnAnswer(mesh.slice(0, length));
  });
});

test("any text and any bytes are answered", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), expectAnAnswer), { numRuns: 200 });
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const loaded = load(bytes);
      expect(loaded.ok).toBe(false);
    }),
    { numRuns: 200 },
  );
});
