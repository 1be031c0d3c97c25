/** Where the processes of a cell keep what they share: a folder of one machine, or a database of several. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import type { PostgresServer } from "@leafmesh/testkit/postgres";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { root } from "../support/process.ts";
import { STOP_AT, type StopPoint } from "./stop-point.ts";

export type BackendKind = "embedded" | "postgres";

type Rows = readonly Readonly<Record<string, unknown>>[];

export interface Place {
  readonly kind: BackendKind;
  /** The process that is to be killed. */
  startFirst(yaml: string, stopAt: StopPoint | undefined): Promise<RunningMesh>;
  /** The one that takes over: on one machine after the first has died. */
  startNext(yaml: string): Promise<RunningMesh>;
  /** Every row of a table. */
  rows(table: string, columns: string): Promise<Rows>;
  close(): Promise<void>;
}

export const PRELOAD = pathToFileURL(join(root, "tests/kill-matrix/stop-at.program.ts")).href;

const firstOptions = (stopAt: StopPoint | undefined) =>
  stopAt ? { preload: PRELOAD, env: { [STOP_AT]: JSON.stringify(stopAt) } } : {};

export function oneMachine(): Place {
  const folder = newFolder();
  return {
    kind: "embedded",
    startFirst: (yaml, stopAt) => startMesh({ yaml, folder, ...firstOptions(stopAt) }),
    startNext: (yaml) => startMesh({ yaml, folder }),
    async rows(table, columns) {
      const file = join(folder, ".leafmesh/mesh.db");
      if (!existsSync(file)) throw new Error(`${file} is not there`);
      const database = new DatabaseSync(file, { readOnly: true });
      try {
        return database.prepare(`select ${columns} from ${table}`).all();
      } finally {
        database.close();
      }
    },
    async close() {},
  };
}

let databases = 0;

export async function severalMachines(server: PostgresServer): Promise<Place> {
  const name = `kill_${++databases}`;
  const url = await server.createDatabase(name);
  const secret = { LEAFMESH_SECRET_KEY: randomBytes(32).toString("base64") };
  const start = (yaml: string, stopAt?: StopPoint): Promise<RunningMesh> => {
    const { env = {}, ...more } = firstOptions(stopAt);
    return startMesh({ yaml: `${yaml}storage: { url: "${url}" }\n`, env: { ...secret, ...env }, ...more });
  };
  return {
    kind: "postgres",
    startFirst: start,
    startNext: (yaml) => start(yaml),
    rows: (table, columns) => server.query(name, `select ${columns} from leafmesh.${table}`),
    close: () => server.dropDatabase(name),
  };
}
