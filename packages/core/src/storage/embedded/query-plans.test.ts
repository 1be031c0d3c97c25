import { DatabaseSync } from "node:sqlite";
import { systemClock } from "@leafmesh/protocol";
import { describe, expect, it } from "vitest";
import { migrateDatabase } from "./migrations.ts";
import { createReads } from "./reads.ts";
import { createPrepare } from "./statements.ts";

/** Every form of every read, as SQLite plans it. */
function plansOfReads(): Map<string, string> {
  const database = new DatabaseSync(":memory:");
  migrateDatabase(database, ":memory:", systemClock);
  const plans = new Map<string, string>();
  const prepare = createPrepare(database, (text) => {
    const steps = database.prepare(`explain query plan ${text}`).all();
    plans.set(text, steps.map((step) => String(step.detail)).join("; "));
  });
  const reads = createReads(prepare);
  for (const read of [reads.session, reads.run, reads.wait, reads.call, reads.upload, reads.tool]) read("x");
  reads.sessionByKey("x", "y");
  reads.executorDeclared("x");
  reads.dueCallbacks(5, 10);
  reads.idempotency("x", "y");
  for (const types of [undefined, ["suspend"]]) reads.frames("x", { types });
  for (const runId of [undefined, "r"]) {
    for (const states of [undefined, ["open"] as const]) {
      if (runId || states) reads.waits({ runId, states, faces: ["client"] });
    }
  }
  reads.calls({ waitId: "w" });
  reads.calls({ runId: "r", faces: ["bridge"] });
  for (const owner of [undefined, "app"]) {
    reads.sessions({ owner, limit: 10, before: 5 });
    reads.countOpenSessions(owner);
  }
  reads.idleSessions(5, 10);
  reads.devices("x");
  reads.offers("x");
  reads.lastEventSeq("x");
  for (const runId of [undefined, "r"]) reads.messages("x", { runId });
  for (const types of [undefined, ["warning"] as const]) reads.events("x", { types });
  for (const sessionId of [undefined, "s"]) {
    for (const open of [undefined, ["queued"] as const]) {
      if (sessionId || open) reads.runs({ sessionId, statuses: open });
    }
    for (const runId of [undefined, "r"]) {
      for (const states of [undefined, ["created"] as const]) {
        for (const newestFirst of [false, true]) {
          if (sessionId || runId || states) reads.calls({ sessionId, runId, states, newestFirst });
        }
      }
    }
  }
  database.close();
  return plans;
}

describe("every read", () => {
  const plans = plansOfReads();

  it("follows a key or an index, and never looks through a whole table", () => {
    expect(plans.size).toBeGreaterThan(30);
    const scans = [...plans].filter(([, plan]) =>
      plan.split("; ").some((step) => step.startsWith("SCAN") && !step.startsWith("SCAN json_each")),
    );
    expect(scans).toEqual([]);
  });

  it("of sessions finds open runs through the index of open runs", () => {
    const summaries = [...plans].filter(([text]) => text.includes("exists (select 1 from runs"));
    expect(summaries.length).toBeGreaterThan(2);
    for (const [, plan] of summaries) expect(plan).toContain("open_runs (status=? AND session_id=?)");
  });
});
