import { historyEntrySchema } from "@leafmesh/protocol";
import { expect, it } from "vitest";
import type { StoredMessage } from "../storage/contract.ts";
import { historyEntry } from "./history.ts";

it("shows each kind of message as the protocol has it, without upload ids", () => {
  const record = (message: StoredMessage, agent?: string) => ({
    sessionId: "ses_1",
    position: 3,
    runId: "run_1",
    turn: 1,
    agent,
    message,
    createdAt: 1_800_000_000_500,
  });
  const toolCalls = [{ id: "a", name: "look", arguments: "{}" }];
  const shown = [
    historyEntry(record({ role: "user", content: "Hi" })),
    historyEntry(record({ role: "assistant", content: null, toolCalls }, "helper")),
    historyEntry(record({ role: "tool", toolCallId: "a", content: "seen", uploads: ["upl_1"] }, "helper")),
  ];
  const common = { position: 3, run_id: "run_1", ts: 1_800_000_000.5 };
  expect(shown).toEqual([
    { ...common, role: "user", content: "Hi" },
    { ...common, role: "assistant", agent: "helper", content: "", tool_calls: toolCalls },
    { ...common, role: "tool", agent: "helper", content: "seen", tool_call_id: "a" },
  ]);
  for (const entry of shown) expect(historyEntrySchema.parse(entry)).toEqual(entry);
});
