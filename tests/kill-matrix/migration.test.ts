/** A process is killed in the middle of bringing the schema up to date: the next start does the rest, and loses nothing. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { OpenAIServer } from "@leafmesh/testkit";
import { type PostgresServer, postgresAvailable, startPostgres } from "@leafmesh/testkit/postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newFolder, type RunningMesh, startMesh } from "../support/mesh.ts";
import { killAll, type RunningProcess, startLeafmesh } from "../support/process.ts";
import { until } from "../support/until.ts";
import { startPlayModel } from "./model.ts";
import { PRELOAD } from "./place.ts";
import { STOP_IN_MIGRATION } from "./stop-point.ts";

let model: OpenAIServer;
beforeAll(async () => {
  model = await startPlayModel("bridge", false);
});
afterAll(async () => {
  await killAll();
  await model.close();
});

const yaml = (storage = ""): string => `name: migrated
models:
  test: { base_url: "${model.baseUrl}", api_key: model-key }
agents:
  helper: { model: test/any, prompt: Do as you are told. }
${storage}`;

async function killed(child: RunningProcess): Promise<void> {
  child.kill("SIGKILL");
  await child.exited;
}

async function talk(mesh: RunningMesh, sessionId: string, query: string): Promise<void> {
  const { status } = await mesh.call("POST", `/api/sessions/${sessionId}/query`, { query });
  expect(status).toBe(202);
  await until("the answer", async () =>
    (await mesh.history(sessionId)).at(-1)?.content === `You said: ${query}` ? true : undefined,
  );
}

const open = async (mesh: RunningMesh): Promise<string> =>
  (await mesh.call<{ session_id: string }>("POST", "/api/sessions", {})).body.session_id;

/** Runs until it is in the middle of that migration of SQLite. */
async function stopIn(version: number, command: readonly string[]): Promise<RunningProcess> {
  const child = startLeafmesh(command, { [STOP_IN_MIGRATION]: String(version) }, PRELOAD);
  await child.waitFor("stopped");
  return child;
}

describe("a process is killed while it migrates a SQLite file", () => {
  const inFile = <Value>(file: string, use: (database: DatabaseSync) => Value): Value => {
    const database = new DatabaseSync(file);
    try {
      return use(database);
    } finally {
      database.close();
    }
  };
  const versionsIn = (file: string): readonly unknown[] =>
    inFile(file, (database) => database.prepare("select version from migrations order by version").all()).map(
      ({ version }) => version,
    );
  const schemaOf = (file: string): unknown =>
    inFile(file, (database) => database.prepare("select type, name, sql from sqlite_schema order by name").all());

  it("in each migration, one after the other: the file is whole, and a session of the first release goes on", async () => {
    const freshFolder = newFolder();
    const fresh = await startMesh({ yaml: yaml(), folder: freshFolder });
    const sessionId = await open(fresh);
    await fresh.stop();
    const freshFile = join(freshFolder, ".leafmesh/mesh.db");
    const versions = versionsIn(freshFile).map(Number);
    const old = ["id", "mesh_name", "entry_point", "created_at", "last_active_at", "context_json"];
    const session = inFile(freshFile, (database) => database.prepare(`select ${old} from sessions`).get());

    const folder = newFolder();
    const meshFile = join(folder, "mesh.yaml");
    writeFileSync(meshFile, yaml());
    const file = join(folder, ".leafmesh/mesh.db");
    for (const version of versions) {
      const command = version % 2 ? ["migrate", meshFile] : ["run", meshFile, "--port", "0"];
      await killed(await stopIn(version, command));
      expect(versionsIn(file)).toEqual(versions.slice(0, version - 1));
      if (version !== 2) continue;
      const insert = `insert into sessions (${old}) values (${old.map((name) => `:${name}`)})`;
      inFile(file, (database) => database.prepare(insert).run(session as Record<string, string>));
    }
    const mesh = await startMesh({ yaml: yaml(), folder });
    await talk(mesh, sessionId, "are you still there?");
    await mesh.stop();
    expect(versionsIn(file)).toEqual(versions);
    expect(schemaOf(file)).toEqual(schemaOf(freshFile));
    expect(inFile(file, (database) => database.prepare("pragma integrity_check").get())).toEqual({
      integrity_check: "ok",
    });
  });
});

describe.skipIf(!postgresAvailable())("a process is killed while it migrates PostgreSQL", () => {
  const env = { LEAFMESH_SECRET_KEY: Buffer.alloc(32, 7).toString("base64") };
  const UPGRADED = "upgraded";
  let server: PostgresServer;
  let columns: unknown;

  /** What the schemas hold. A partition of pg-boss is named by a hash and not by its order. */
  const columnsOf = (database: string): Promise<unknown> =>
    server.query(
      database,
      `select table_schema, table_name, column_name, data_type from information_schema.columns
       where table_schema like 'leafmesh%' order by 1, 2, 3`,
    );
  const whole = (database: string): string => yaml(`storage: { url: "${server.urlOf(database)}" }\n`);

  beforeAll(async () => {
    server = await startPostgres();
    await server.createDatabase("fresh");
    const fresh = await startMesh({ yaml: whole("fresh"), env });
    await fresh.stop();
    columns = await columnsOf("fresh");
  });
  afterAll(async () => {
    await server?.stop();
  });

  /** Every statement that makes or changes something of the kind, in that schema, takes 2 s from now on. */
  const slowDown = (database: string, schema: string, kind: string): Promise<unknown> =>
    server.query(
      database,
      `create function public.slow_down() returns event_trigger language plpgsql as $$ begin
         if exists (select from pg_event_trigger_ddl_commands() where schema_name = '${schema}' and object_type = '${kind}')
         then perform pg_sleep(2); end if;
       end $$;
       create event trigger slow_down on ddl_command_end execute function public.slow_down()`,
    );

  /** Kills `leafmesh migrate` while its transaction is under way in the database, and lets the database go on as it is. */
  async function killWithin(database: string, schema: string, kind: string): Promise<void> {
    await slowDown(database, schema, kind);
    const meshFile = join(newFolder(), "mesh.yaml");
    writeFileSync(meshFile, whole(database));
    const migrating = startLeafmesh(["migrate", meshFile], env);
    await until("the migration is under way", async () => {
      const sleeping = await server.query(
        "postgres",
        `select from pg_stat_activity where datname = '${database}' and wait_event = 'PgSleep'`,
      );
      return sleeping.length > 0 ? true : undefined;
    });
    await killed(migrating);
    await server.query(database, "drop event trigger slow_down; drop function public.slow_down()");
  }

  async function startsWhole(database: string): Promise<RunningMesh> {
    const mesh = await startMesh({ yaml: whole(database), env });
    expect(await columnsOf(database)).toEqual(columns);
    return mesh;
  }

  it.each([
    ["first tables", "leafmesh", "index"],
    ["tables of the job queue", "leafmesh_jobs", "table"],
  ])("in the %s: the next start makes all of them", async (_what, schema, kind) => {
    const database = `in_${schema}`;
    await server.createDatabase(database);
    await killWithin(database, schema, kind);
    const mesh = await startsWhole(database);
    await talk(mesh, await open(mesh), "are you there?");
    await mesh.stop();
  });

  it("in a later migration: the data of the release before is there", async () => {
    await server.createDatabase(UPGRADED);
    const before = await startMesh({ yaml: whole(UPGRADED), env });
    const sessionId = await open(before);
    await talk(before, sessionId, "remember me");
    await before.stop();
    await server.query(
      UPGRADED,
      "alter table leafmesh.callbacks drop column event_json; delete from leafmesh.migrations where version > 1",
    );
    await killWithin(UPGRADED, "leafmesh", "table");
    expect(await server.query(UPGRADED, "select version from leafmesh.migrations")).toEqual([{ version: 1 }]);
    const mesh = await startsWhole(UPGRADED);
    await talk(mesh, sessionId, "who am I?");
    expect((await mesh.history(sessionId)).map(({ content }) => content)).toEqual([
      "remember me",
      "You said: remember me",
      "who am I?",
      "You said: who am I?",
    ]);
    await mesh.stop();
  });
});
