import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Compilable } from "kysely";
import { type ColumnValue, compileStatement } from "./compile.ts";

/** A query that is compiled and prepared when it first runs, and only run from then on. */
export interface Statement<Parameters extends object, Row> {
  /** How many rows changed. */
  run(parameters: Parameters): number;
  get(parameters: Parameters): Row | undefined;
  all(parameters: Parameters): Row[];
}

export type Prepare = <Parameters extends object, Row>(
  build: (parameters: Parameters) => Compilable<Row>,
) => Statement<Parameters, Row>;

/** Prepares queries on one connection. `onPrepared` sees the SQL of each. */
export function createPrepare(database: DatabaseSync, onPrepared?: (sql: string) => void): Prepare {
  return function prepare<Parameters extends object, Row>(
    build: (parameters: Parameters) => Compilable<Row>,
  ): Statement<Parameters, Row> {
    let bound: { statement: StatementSync; bind: (parameters: Parameters) => ColumnValue[] } | undefined;

    const prepared = () => {
      if (bound) return bound;
      const { sql, slots } = compileStatement(build);
      onPrepared?.(sql);
      const bind = (parameters: Parameters): ColumnValue[] =>
        slots.map((slot) => ("name" in slot ? parameterValue(parameters, slot.name) : slot.value));
      bound = { statement: database.prepare(sql), bind };
      return bound;
    };

    return {
      run(parameters) {
        const { statement, bind } = prepared();
        return Number(statement.run(...bind(parameters)).changes);
      },
      get(parameters) {
        const { statement, bind } = prepared();
        return statement.get(...bind(parameters)) as Row | undefined;
      },
      all(parameters) {
        const { statement, bind } = prepared();
        return statement.all(...bind(parameters)) as Row[];
      },
    };
  };
}

function parameterValue(parameters: object, name: string): ColumnValue {
  const value: unknown = Reflect.get(parameters, name);
  if (typeof value === "string" || typeof value === "number" || value === null || value instanceof Uint8Array) {
    return value;
  }
  throw new TypeError(`the parameter "${name}" of a query is of type ${typeof value}`);
}
