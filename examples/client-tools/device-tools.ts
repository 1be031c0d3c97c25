/**
 * Tools that an app declares on a conversation and runs itself.
 *
 *   EXAMPLE_FOLDER=. npm run -s leafmesh -- run examples/client-tools/mesh.yaml
 *   node --conditions=leafmesh-source examples/client-tools/device-tools.ts
 */
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, createExecutor, ToolError } from "@leafmesh/client";
import { openFileCallLedger } from "@leafmesh/client/node";

const sent: string[] = [];

const client = createClient({ url: process.env.LEAFMESH_URL ?? "http://127.0.0.1:18820" });
const ledger = await openFileCallLedger(process.env.LEDGER ?? join(tmpdir(), "leafmesh-example-calls.jsonl"));

const executor = createExecutor({
  ledger,
  tools: {
    device_send_sms: {
      description: "Send an SMS to a phone number.",
      parameters: {
        type: "object",
        properties: { to: { type: "string" }, body: { type: "string" } },
        required: ["to", "body"],
      },
      run({ to, body }) {
        if (typeof to !== "string" || typeof body !== "string")
          throw new ToolError("bad_args", "to and body are texts");
        sent.push(`${to}: ${body}`);
        return { delivered: true, message_id: `sms_${sent.length}` };
      },
    },
  },
  allow: ({ tool }) => (tool === "device_send_sms" ? true : "Only SMS is allowed on this phone"),
});

const session = await client.sessions.create({ entry_point: "chat" });
await executor.attach(session);

const answer = await session.ask({
  query: "Text mom that I will be late.",
  context: { device_tools: executor.deviceTools },
});
console.log(answer.reply);

assert.equal(answer.reply, "I have told her.");
assert.deepEqual(sent, ["+15550001234: Running late, be there soon."]);

await executor.close();
await ledger.close();
