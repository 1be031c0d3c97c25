// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references are what these texts are about
/** What the reference of mesh.yaml says beside its tables. Every mesh in here is loaded by a test. */

/** Works as it stands, with no account anywhere. */
export const exampleMesh = `# yaml-language-server: $schema=./mesh.schema.json
name: phone-support
connections:
  my_phones:
    provider: direct
agents:
  phone_helper:
    model: gpt-4o-mini
    prompt: |
      Help the customer with their phone. Use device_action to read or
      change something on it when they ask you to.
    device:
      connection: my_phones
      approval: ask
entry_points:
  - name: chat
    target: phone_helper
`;

/** The example with three mistakes; what the loader says of it is printed into the reference. */
export const brokenMesh = exampleMesh
  .replace("approval: ask", "aproval: ask")
  .replace("connection: my_phones", "connection: my_phone")
  .replace("target: phone_helper", "target: helper");

export const sharedMesh = `agents:
  reader: &common
    model: gpt-4o-mini
    prompt: Read things on the customer's phone.
    max_tokens: 400
  writer:
    <<: *common
    prompt: Change things on the customer's phone.
`;

export const referencesMesh = `server:
  port: \${PORT:-18820}
  api_keys:
    - name: support-app
      key: \${SUPPORT_APP_KEY}
models:
  local:
    base_url: http://127.0.0.1:11434/v1
    api_key: \${file:./secrets/local.key}
agents:
  helper:
    model: local/llama3.2
    prompt: Be brief.
`;

export const intro = `One file describes a mesh: its agents, how they reach devices, where messages come in. This page is generated from the
schema that the loader uses.`;

export const checking = `\`leafmesh validate\` reports every mistake at once, with its place and its cure, and exits with 3. \`--json\` gives the same
to scripts. \`leafmesh schema --out mesh.schema.json\` writes the JSON Schema that the first line of the example names, so
that an editor completes keys and shows mistakes while you type.`;

export const references = `| Written | Replaced by |
|---|---|
| \`\${NAME}\` | The environment variable. If it is not set, the file is refused |
| \`\${NAME:-default}\` | The variable, or the default if it is not set or empty |
| \`\${file:./path}\` | The text of the file, without line ends at its end. Relative to the folder of mesh.yaml |
| \`$\${\` | A literal \`\${\` |

References work in every value and in no key. What they give is not searched for further references. A value without quotes
becomes a number or a truth value where the field asks for one; a password of digits stays a text.

A value that is nothing but a reference and comes out empty counts as left out. Inside \`{ }\` and \`[ ]\` YAML needs quotes
around a reference: \`{ api_key: "\${ABLY_API_KEY}" }\`.`;

export const yamlRules = `The file is YAML 1.2 in UTF-8: one document, at most 256 KiB (\`--max-config-size\` raises that up to 10 MiB). Anchors,
aliases and merge keys work. Tags, directives and duplicate keys are refused, and so is every key that this page does not
list.`;

export const connectionsIntro = `A connection is a record with a \`provider\` and that provider's fields. A notifier rings devices and is named by
\`device.connection\`; a room is where the mesh and a device meet and is named by \`device.room\`. These are all the
providers of this version.`;

export const modelsIntro = `\`gpt-4o-mini\` is a model of OpenAI. \`local/llama3.2\` is the model \`llama3.2\` of the entry \`local\`; an entry named
\`openai\` replaces the built-in one.`;

export const approvalNote = `The device is never in the file: it comes with the request that starts or continues a conversation. An agent with this block
has the tool \`device_action\`; see [outcomes](outcomes.md) for what it answers.`;

export const toolsMesh = `tools:
  highlight:
    client_owned: true
    description: Highlight an element of the page the visitor is looking at.
    input_schema:
      type: object
      properties:
        selector: { type: string }
      required: [selector]
  book_call:
    url: https://crm.example.com/calls
    headers:
      Authorization: "Bearer \${CRM_TOKEN}"
    effect: write
    description: Books a call back for the visitor.
    input_schema: { type: object, properties: { at: { type: string } } }
agents:
  site_guide:
    model: gpt-4o-mini
    prompt: Show the visitor around.
    tools: [highlight, book_call]
`;

export const toolsIntro = `Tools that agents list in their \`tools\`. One with \`client_owned: true\` is executed by the client that submits the run
with \`POST /runs\`; of the others the arguments are POSTed to \`url\`. A call of a tool with \`requires_approval\` waits for
a decision, which runs of \`POST /runs\` can bring.

\`\`\`yaml
${toolsMesh.trimEnd()}
\`\`\``;

export const callbacksNote = `A run of \`POST /runs\` may name a \`callback_url\`. The address has to be https and in the public internet, unless
\`allow\` lists its origin: \`allow: ["http://127.0.0.1:*"]\` lets a test receive notices on any port of this machine.`;
