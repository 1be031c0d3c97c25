// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are written into the meshes
import { describe, expect, test } from "vitest";
import { everythingShown, headlines, loadText } from "./test-support.ts";

/** Stands in every mesh below where a secret would, and must be nowhere in what is shown. */
const MARK = "MARKED-S3CRET-7f3a";

const agent = "agents: { a: { model: gpt-4o-mini, prompt: Help. } }\n";

/** Everything wrong with them, so that every line with a secret is one that is shown. */
const meshes: Readonly<Record<string, string>> = {
  "a secret field, and a mistake on its line": `${agent}connections: { c: { provider: mqtt, url: 5, password: ${MARK} } }\n`,
  "a secret field of the wrong type": `${agent}connections: { c: { provider: fcm, service_account: { json: ${MARK} } } }\n`,
  "a secret field that is a list": `${agent}connections:\n  c:\n    provider: fcm\n    service_account: [${MARK}, b]\n`,
  "a secret under a misspelled key": `${agent}connections:\n  c:\n    provider: mqtt\n    url: mqtt://b\n    pasword: ${MARK}\n`,
  "a secret under a key that nobody knows": `${agent}connections:\n  c:\n    provider: mqtt\n    url: mqtt://b\n    zebra: ${MARK}\n`,
  "a secret under a key close to one that is no secret": `models: { x: { kinds_key: ${MARK} } }\n${agent}`,
  "a secret of a provider that nobody knows": `${agent}connections: { c: { provider: nope, key: ${MARK} } }\n`,
  "a secret of a record without a provider": `${agent}connections: { c: { secret: ${MARK} } }\n`,
  "a secret of a model of an unknown kind": `${agent}models: { x: { kind: nope, api_key: ${MARK} } }\n`,
  "a secret that stands twice": `${agent}connections:\n  c:\n    provider: mqtt\n    url: mqtt://b\n    password: one\n    password: ${MARK}\n`,
  "a secret in a record that stands twice": `${agent}connections:\n  c: { provider: direct }\n  c: { provider: mqtt, password: ${MARK} }\n`,
  "a secret under a forbidden key": `${agent}connections:\n  __proto__: { provider: mqtt, password: ${MARK} }\n`,
  "a secret as a key": `${agent}connections:\n  ? { password: ${MARK} }\n  : 1\n`,
  "an API key": `${agent}server: { port: no, api_keys: [${MARK}] }\n`,
  "an API key twice": `${agent}server:\n  api_keys:\n    - ${MARK}\n    - ${MARK}\n`,
  "an API key under a wrong key": `${agent}server:\n  api_keys:\n    - name: app\n      value: ${MARK}\n`,
  "a header": `${agent}models:\n  x: { base_url: no, headers: { authorization: Bearer ${MARK} } }\n`,
  "a password in an address": `${agent}connections: { c: { provider: mqtt, url: "mqtt://u:${MARK}@b", keepalive: no } }\n`,
  "a password in an address that is refused": `${agent}storage: { url: "mysql://u:${MARK}@db/mesh" }\n`,
  "a password in a database's address": `${agent}storage: { url: "postgres://u:${MARK}@db/mesh", durable: no }\n`,
  "a secret that a provider repeats": `${agent}connections: { c: { provider: mqtt, url: mqtt://b, password: ${MARK} } }\n`,
  "a secret with a tag": `${agent}connections: { c: { provider: mqtt, url: mqtt://b, password: !x ${MARK} } }\n`,
  "an anchored secret": `${agent}connections:\n  c: { provider: mqtt, password: &p ${MARK} }\n  d: { provider: mqtt, password: *p }\n`,
  "a merged secret": `${agent}connections:\n  c: &c { provider: mqtt, password: ${MARK} }\n  d: { <<: *c, keepalive: no }\n`,
  "a variable where a name belongs":
    'agents: { a: { model: m, prompt: p, name: "${SECRET}" } }\nentry_points: [{ name: x, target: "${SECRET}" }]\n',
  "a variable where a connection belongs":
    'agents: { a: { model: "${SECRET}/m", prompt: p, device: { connection: "${SECRET}", room: "${SECRET}", approval: "${SECRET}" } } }\n',
  "a variable where a provider belongs": `${agent}connections: { c: { provider: "\${SECRET}" } }\n`,
  "a variable where a number belongs": `${agent}server:\n  port: \${SECRET}\n`,
  "a variable that a provider repeats": `${agent}connections: { c: { provider: mqtt, url: mqtt://b, password: "\${SECRET}" } }\n`,
  "a file where a name belongs": `${agent}name: \${file:./secret.txt} \n`,
  "the default of a variable": `${agent}connections: { c: { provider: mqtt, url: 5, password: "\${NOPE:-${MARK}}" } }\n`,
  "the default of a variable, badly written": `${agent}connections: { c: { provider: mqtt, password: "\${NOPE:${MARK}}" } }\n`,
  "the default of a variable, without quotes in braces": `${agent}connections: { c: { provider: mqtt, password: \${NOPE:-${MARK}} } }\n`,
  "a reference that is not closed": `${agent}connections: { c: { provider: mqtt, password: "\${${MARK}" } }\n`,
  "a quote that is not closed": `connections:\n  c:\n    password: "${MARK}\n${agent}`,
  "a quote that is not closed, in braces": `connections: { c: { provider: mqtt, password: "${MARK} } }\n${agent}`,
  "text after a quoted secret": `connections:\n  c:\n    api_key: "${MARK}" ${MARK}\n`,
  "a colon in a secret": `connections:\n  c:\n    secret: ${MARK}: ${MARK}\n`,
  "a secret of several lines with one too far left": `connections:\n  c:\n    client_key: |\n      -----BEGIN-----\n   ${MARK}\n      -----END-----\n${agent}`,
  "a line too deep below a secret": `connections:\n  c:\n    api_key: x\n      ${MARK}: ${MARK}\n`,
  "a list of keys with a mistake": `server:\n  api_keys:\n    - one\n   - ${MARK}\n`,
  "a list of keys at the column of its key": `server:\n  api_keys:\n  - "${MARK}\n`,
  "JSON in a text with a mistake": `connections:\n  c:\n    service_account: |\n      { "private_key": "x",\n    "client_email": "${MARK}" }\n${agent}`,
  "a tab before a secret": `connections:\n  c:\n\tpassword: ${MARK}\n`,
};

describe("no finding holds a secret", () => {
  test.each(Object.entries(meshes))("%s", (_, mesh) => {
    const loaded = loadText(mesh, {
      env: { SECRET: MARK },
      readFile: () => ({ ok: true, text: `${MARK}\nmore` }),
    });
    expect(loaded.ok).toBe(false);
    expect(headlines(loaded).length).toBeGreaterThan(0);
    expect(everythingShown(loaded)).not.toContain(MARK);
  });
});

test("a mesh that is loaded prints no secret", () => {
  const mesh = `
connections:
  c: { provider: mqtt, url: mqtt://b, username: mesh, password: ${MARK} }
  d: { provider: fcm, service_account: "\${file:./secret.json}" }
models: { x: { base_url: http://h, api_key: ${MARK} } }
server: { api_keys: [${MARK}, { name: app, key: "\${SECRET}" }] }
agents: { a: { model: x/m, prompt: p, device: { connection: c } } }
`;
  const loaded = loadText(mesh, { env: { SECRET: `${MARK}-2` }, readFile: () => ({ ok: true, text: MARK }) });
  expect(loaded.ok).toBe(true);
  expect(everythingShown(loaded)).not.toContain(MARK);
});

describe("what is no secret stays readable", () => {
  const lineOf = (mesh: string): string | undefined => {
    const loaded = loadText(mesh);
    return loaded.ok ? undefined : loaded.diagnostics[0]?.sourceLine;
  };

  test("a misspelled key that is no secret", () => {
    expect(lineOf(`${agent}log_lvel: debug\n`)).toBe("log_lvel: debug");
  });

  test("a reference in a secret field", () => {
    const line = '  c: { provider: fcm, service_account: "${FCM_KEY}" }';
    expect(lineOf(`connections:\n${line}\n${agent}`)).toBe(line);
  });

  test("other fields beside a secret", () => {
    expect(lineOf(`${agent}connections:\n  c: { provider: mqtt, url: 5, password: ${MARK}, keepalive: 9 }\n`)).toBe(
      "  c: { provider: mqtt, url: 5, password: ***, keepalive: 9 }",
    );
  });

  test("a prompt with a mistake in its indentation", () => {
    expect(lineOf("agents:\n  a:\n    prompt: |\n      Help the customer.\n   Be brief.\n")).toBe("   Be brief.");
  });
});
