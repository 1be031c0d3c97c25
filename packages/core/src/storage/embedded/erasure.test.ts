import { spawnSync } from "node:child_process";
import { createFakeClock } from "@leafmesh/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSession, openStore, type TemporaryFolder, temporaryFolder } from "../../../testing/stores.ts";

const TOKEN = "sealed-token-that-must-not-outlive-its-session";
const CONTENT = "sealed-photo-that-must-not-outlive-its-session";

let folder: TemporaryFolder;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => folder[Symbol.dispose]());

/** Names of files in the folder that hold the text anywhere: rows, free pages, old frames of the log. */
function filesHolding(text: string): string[] {
  const { stdout } = spawnSync("grep", ["-r", "-a", "-l", "-F", text, folder.path], { encoding: "utf8" });
  return stdout.split("\n").filter((line) => line !== "");
}

const devices = (id: string, token: string) => [{ sessionId: "s", id, sealedPushToken: token }];
const upload = {
  kind: "upload.create",
  upload: {
    id: "u",
    sessionId: "s",
    callId: "c",
    name: "photo.jpg",
    mediaType: "image/jpeg",
    size: 9,
    sealedContent: new TextEncoder().encode(CONTENT.repeat(500)),
    createdAt: 1,
  },
} as const;

describe("what the end of a session erases", () => {
  it("is in no file any more once the store has been idle", async () => {
    const clock = createFakeClock();
    await using store = await openStore(folder.file("mesh.db"), { clock });
    await store.commit([createSession("s"), createSession("other")]);
    await store.commit([{ kind: "devices.replace", sessionId: "s", devices: devices("phone", TOKEN) }, upload]);
    await clock.advance(10_000);
    await store.commit([createSession("later")]);
    expect(filesHolding(TOKEN)).not.toEqual([]);
    expect(filesHolding(CONTENT)).not.toEqual([]);

    await store.commit([{ kind: "session.end", sessionId: "s", at: clock.nowMs() }]);
    await clock.advance(10_000);
    expect(filesHolding(TOKEN)).toEqual([]);
    expect(filesHolding(CONTENT)).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("is in no file any more after a token was replaced", async () => {
    const clock = createFakeClock();
    await using store = await openStore(folder.file("mesh.db"), { clock });
    await store.commit([createSession("s")]);
    await store.commit([{ kind: "devices.replace", sessionId: "s", devices: devices("phone", TOKEN) }]);
    await store.commit([{ kind: "devices.replace", sessionId: "s", devices: devices("phone", "new") }]);
    await clock.advance(10_000);
    expect(filesHolding(TOKEN)).toEqual([]);
    expect(await store.devices("s")).toMatchObject([{ sealedPushToken: "new" }]);
  });

  it("is in no file any more when the store is closed at once", async () => {
    {
      await using store = await openStore(folder.file("mesh.db"), { clock: createFakeClock() });
      await store.commit([createSession("s")]);
      await store.commit([{ kind: "devices.replace", sessionId: "s", devices: devices("phone", TOKEN) }, upload]);
      await store.commit([{ kind: "session.end", sessionId: "s", at: 1 }]);
    }
    expect(filesHolding(TOKEN)).toEqual([]);
    expect(filesHolding(CONTENT)).toEqual([]);
  });
});
