/** Finds secrets where they must not be. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The mark as it is, and as it would look after the usual encodings. */
export function formsOf(mark: string): readonly string[] {
  const bytes = Buffer.from(mark);
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift, 0x2d), bytes])
      .toString("base64")
      .slice(shift === 0 ? 0 : 4, -4),
  );
  return [mark, encodeURIComponent(mark), bytes.toString("hex"), ...base64, [...mark].reverse().join("")];
}

export interface Place {
  readonly name: string;
  readonly text: string;
}

/** `<what it is> in <where>` for each mark that is found, in whatever form. */
export function findMarks(marks: Readonly<Record<string, string>>, places: readonly Place[]): readonly string[] {
  return Object.entries(marks).flatMap(([kind, mark]) =>
    formsOf(mark).flatMap((form) =>
      places.filter(({ text }) => text.includes(form)).map(({ name }) => `${kind} in ${name}`),
    ),
  );
}

/** The files of a mesh's embedded store. */
export function databaseOf(folder: string): readonly Place[] {
  const data = join(folder, ".leafmesh");
  return readdirSync(data).map((file) => ({
    name: `the file ${file}`,
    text: readFileSync(join(data, file), "latin1"),
  }));
}
