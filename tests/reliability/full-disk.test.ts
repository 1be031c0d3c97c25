/** A mesh whose disk fills up under it: what it refuses, what it still shows, and how it goes on. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { createGates } from "../support/gates.ts";
import { startMesh } from "../support/mesh.ts";
import { startObedientModel } from "../support/model.ts";
import { killAll } from "../support/process.ts";
import { openRawStream } from "../support/raw-stream.ts";
import { mountSmallDisk, reasonWithoutSmallDisk } from "../support/small-disk.ts";
import { until } from "../support/until.ts";

const noDisk = reasonWithoutSmallDisk();
const oneTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

describe.skipIf(noDisk !== undefined && !process.env.CI)(
  `R-18 a full disk${noDisk ? ` (left out: ${noDisk})` : ""}`,
  () => {
    afterAll(killAll);

    it("is a clear 503 for new work; conversations stay readable, and all goes on by itself", async () => {
      const disk = mountSmallDisk(8);
      if (typeof disk === "string") throw new Error(disk);
      const gates = createGates();
      const model = await startObedientModel({ before: gates.pass });
      const yaml = `name: full
${model.yaml}agents:
  helper: { model: test/any, prompt: Do as you are told. }
`;
      try {
        const mesh = await startMesh({ yaml, folder: disk.folder });
        const acknowledged: string[] = [];
        const { session_id: sessionId } = await mesh.request({ message: "before" });
        acknowledged.push("before");
        const path = `/api/sessions/${sessionId}`;

        gates.hold("under way");
        expect((await mesh.call("POST", `${path}/query`, { query: "under way" })).status).toBe(202);
        acknowledged.push("under way");
        await gates.reached("under way");
        disk.fill();

        // What the files of the store still have room for is taken.
        const refused = await until("a refusal", async () => {
          const answer = await mesh.call("POST", "/api/sessions", {});
          return answer.status === 200 || answer.status === 201 ? undefined : answer;
        });
        expect(refused).toMatchObject({ status: 503, body: { error: { code: "storage_full" } } });
        const message = await mesh.call("POST", `${path}/query`, { query: "while it is full" });
        expect(message).toMatchObject({ status: 503, body: { error: { code: "storage_full" } } });
        expect((await mesh.call("GET", "/readyz")).status).toBe(503);
        expect((await mesh.call("GET", "/healthz")).status).toBe(200);
        expect((await mesh.history(sessionId)).map(({ content }) => content)).toEqual([
          "before",
          "You said: before",
          "under way",
        ]);
        const stream = openRawStream(mesh.port, `${path}/stream`);
        await stream.until((ids) => ids.length >= 6);
        gates.release("under way");
        await until("the failure under the run", async () => mesh.output().includes("is full") || undefined);

        disk.free();
        const freedAt = performance.now();
        const next = await until("the next message to be taken", async () => {
          const answer = await mesh.call("POST", `${path}/query`, { query: "after" });
          return answer.status === 202 ? answer : undefined;
        });
        const tookMs = performance.now() - freedAt;
        expect(next.status).toBe(202);
        acknowledged.push("after");
        const history = await until("every answer", async () => {
          const said = await mesh.history(sessionId);
          return said.at(-1)?.content === "You said: after" ? said : undefined;
        });
        expect(history.map(({ content }) => content)).toEqual(
          acknowledged.flatMap((text) => [text, `You said: ${text}`]),
        );
        const wholeMs = performance.now() - freedAt;
        const last = stream.events().at(-1)?.id ?? 0;
        expect(stream.events().map(({ id }) => id)).toEqual(oneTo(last));
        for (const { text } of stream.events()) expect(JSON.parse(text)).toHaveProperty("type");
        stream.socket.destroy();
        expect((await mesh.call("GET", "/readyz")).status).toBe(200);
        expect(await mesh.stop()).toBe(0);

        const database = new DatabaseSync(join(disk.folder, ".leafmesh/mesh.db"), { readOnly: true });
        expect(database.prepare("pragma integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
        database.close();
        console.log(
          `R-18: ${acknowledged.length} messages acknowledged, 0 lost; new work taken ${Math.round(tookMs)} ms after there ` +
            `was space, everything answered after ${Math.round(wholeMs)} ms`,
        );
      } finally {
        await killAll();
        await model.close();
        disk.unmount();
      }
    });
  },
);
