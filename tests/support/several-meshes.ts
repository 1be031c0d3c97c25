/** Mesh processes that share one PostgreSQL. */
import { randomBytes } from "node:crypto";
import type { PostgresServer } from "@leafmesh/testkit/postgres";
import { type MeshOptions, newFolder, type RunningMesh, startMesh } from "./mesh.ts";
import { type RunningProcess, startLeafmesh } from "./process.ts";

export interface SeveralMeshes {
  readonly server: PostgresServer;
  /** Another process, each with a folder of its own as on a machine of its own. */
  start(args?: readonly string[]): Promise<RunningMesh>;
  /** `leafmesh` with the same mesh file. */
  run(command: string, ...args: readonly string[]): RunningProcess;
  query(sql: string): Promise<readonly Record<string, unknown>[]>;
  stopAll(): Promise<void>;
  close(): Promise<void>;
}

let databases = 0;

/** `yaml` without its `storage:` section. */
export async function startSeveral(
  server: PostgresServer,
  yaml: string,
  more: Pick<MeshOptions, "played"> = {},
): Promise<SeveralMeshes> {
  const database = `journey_${++databases}`;
  const url = await server.createDatabase(database);
  const env = { LEAFMESH_SECRET_KEY: randomBytes(32).toString("base64") };
  const whole = `${yaml}storage: { url: "${url}" }\n`;
  const meshes: RunningMesh[] = [];
  return {
    server,
    async start(args = []) {
      const mesh = await startMesh({ yaml: whole, env, folder: newFolder(), args, ...more });
      meshes.push(mesh);
      return mesh;
    },
    run: (command, ...args) => startLeafmesh([command, `${meshes[0]?.folder}/mesh.yaml`, ...args], env),
    query: (sql) => server.query(database, sql),
    async stopAll() {
      await Promise.all(meshes.splice(0).map((mesh) => mesh.stop()));
    },
    async close() {
      await Promise.all(meshes.splice(0).map((mesh) => mesh.stop()));
      await server.dropDatabase(database);
    },
  };
}
