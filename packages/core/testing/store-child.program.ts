/**
 * A process that uses a store, for tests that end it: `store-child.program.ts <hold|write> <file> <durable>`. It says `open` on
 * standard output, then, when it writes, one line `<session> <seq>` for each commit that was acknowledged.
 */
import { writeSync } from "node:fs";
import { silentLogger, systemClock } from "@leafmesh/protocol";
import { createEmbeddedBackend } from "../src/storage/embedded/index.ts";

const [, , mode, path = "", durable] = process.argv;
const WRITERS = 6;

const say = (line: string): void => void writeSync(1, `${line}\n`);

const backend = createEmbeddedBackend({
  path,
  durable: durable === "true",
  clock: systemClock,
  logger: silentLogger,
});
await backend.migrate();

async function writeForever(sessionId: string): Promise<never> {
  for (let round = 0; ; round++) {
    const at = Date.now();
    const content = `${round} ${"x".repeat((round * 37) % 3_000)}`;
    const result = await backend.commit([
      { kind: "session.touch", sessionId, at },
      {
        kind: "message.append",
        message: { sessionId, runId: "run", turn: 0, message: { role: "user", content }, createdAt: at },
      },
      { kind: "event.append", sessionId, at, event: { type: "warning", payload: { code: "test", message: content } } },
    ]);
    if (!result.committed) throw new Error(`refused: ${result.reason}`);
    say(`${sessionId} ${result.events[0]?.seq}`);
  }
}

say("open");
if (mode === "write") {
  const sessions = Array.from({ length: WRITERS }, (_, index) => `session-${index}`);
  for (const id of sessions) {
    const at = Date.now();
    await backend.commit([
      {
        kind: "session.create",
        session: { id, meshName: "m", entryPoint: "e", createdAt: at, lastActiveAt: at, context: {} },
      },
    ]);
  }
  await Promise.all(sessions.map(writeForever));
} else {
  setInterval(() => {}, 60_000);
}
