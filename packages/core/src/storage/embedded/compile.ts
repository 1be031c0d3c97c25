/**
 * Queries are written with Kysely, which checks tables and columns, and compiled once: what runs is a prepared
 * statement with its parameters by name. Kysely never touches the database.
 */
import { type Compilable, DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from "kysely";
import type { Tables } from "./tables.ts";

/** Builds queries and cannot run them. */
export const builder = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (database) => new SqliteIntrospector(database),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
});

export type ColumnValue = string | number | null | Uint8Array;

/** SQL with `?` in it, and what belongs there in order: the name of a parameter, or a constant of the query. */
export interface CompiledStatement {
  readonly sql: string;
  readonly slots: readonly ({ readonly name: string } | { readonly value: ColumnValue })[];
}

/** Stands in a query for a parameter whose value is known only when the statement runs. */
class Parameter {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** Compiles what `build` makes of its parameters; `build` may only place them, it cannot look at them. */
export function compileStatement<Parameters extends object>(
  build: (parameters: Parameters) => Compilable,
): CompiledStatement {
  const placeholders = new Proxy({} as Parameters, { get: (_target, name) => new Parameter(String(name)) });
  const { sql, parameters } = build(placeholders).compile();
  return { sql, slots: parameters.map(slot) };
}

function slot(parameter: unknown): CompiledStatement["slots"][number] {
  if (parameter instanceof Parameter) return { name: parameter.name };
  if (typeof parameter === "string" || typeof parameter === "number" || parameter === null) return { value: parameter };
  throw new TypeError(`a query holds a constant of type ${typeof parameter}`);
}
