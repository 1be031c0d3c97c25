import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { StorageError } from "../contract.ts";
import { brokenConstraint, toStorageError } from "./errors.ts";

/** As `node:sqlite` throws it. */
function sqliteError(errcode: number, message = "what SQLite says"): Error {
  return Object.assign(new Error(message), { code: "ERR_SQLITE_ERROR", errcode });
}

describe("an error of SQLite", () => {
  it.for([
    [5, "busy", /another program holds a lock on \/data\/mesh\.db; close it/],
    [5 | (2 << 8), "busy", /holds a lock/],
    [6, "busy", /holds a lock/],
    [8, "unavailable", /cannot be written; check who owns it/],
    [10, "unavailable", /failed to read or write \/data\/mesh\.db; check the disk/],
    [10 | (19 << 8), "full", /the disk that holds \/data\/mesh\.db is full; free some space/],
    [11, "corrupt", /damaged or is not a database; restore it from a backup/],
    [13, "full", /is full/],
    [14, "unavailable", /cannot be opened; check that its folder exists/],
    [26, "corrupt", /is damaged/],
    [1, "unavailable", /could not be used/],
  ] as const)("%i becomes %s, with the file, the cure and the cause", ([errcode, code, message]) => {
    const cause = sqliteError(errcode);
    const error = toStorageError(cause, "/data/mesh.db");
    expect(error).toBeInstanceOf(StorageError);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message), cause });
    expect(error).toMatchObject({ message: expect.stringContaining("(SQLite: what SQLite says)") });
  });

  it("is the only kind that is changed", () => {
    for (const error of [new TypeError("a bug"), new StorageError("full", "full"), "text", undefined]) {
      expect(toStorageError(error, "/data/mesh.db")).toBe(error);
    }
  });

  it("of a constraint says which precondition did not hold", () => {
    const database = new DatabaseSync(":memory:");
    database.exec(`create table a (id text primary key, other text unique) strict;
      create table b (a text references a (id), n integer) strict;
      insert into a values ('x', 'y')`);
    const thrownBy = (text: string): unknown => {
      try {
        database.exec(text);
      } catch (error) {
        return error;
      }
      throw new Error("nothing was thrown");
    };
    expect(brokenConstraint(thrownBy("insert into a values ('x', 'z')"))).toBe("exists");
    expect(brokenConstraint(thrownBy("insert into a values ('z', 'y')"))).toBe("exists");
    expect(brokenConstraint(thrownBy("insert into b values ('nowhere', 1)"))).toBe("missing");
    expect(brokenConstraint(thrownBy("insert into b values ('x', 'text')"))).toBeUndefined();
    expect(brokenConstraint(new Error("other"))).toBeUndefined();
    database.close();
  });
});
