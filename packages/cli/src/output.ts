/** How commands print: plain text for people, JSON for scripts, colours only where a terminal shows them. */
import type { Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { createColors } from "picocolors";
import type { CliContext } from "./context.ts";

export type Palette = ReturnType<typeof createColors>;

export function palette(context: CliContext): Palette {
  return createColors(context.colors);
}

export function writeLine(stream: Writable, text = ""): void {
  stream.write(`${text}\n`);
}

export function writeJson(stream: Writable, value: unknown): void {
  stream.write(`${JSON.stringify(value, null, 2)}\n`);
}

/** Text from outside with control characters made visible, so that it cannot move the cursor or fake a line. */
export function printable(text: string, maxCharacters = 500): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  const safe = text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, (character) =>
    character === "\n" ? "⏎" : `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return safe.length > maxCharacters ? `${safe.slice(0, maxCharacters)}…` : safe;
}

/** Columns aligned by their widest cell, colours not counted; the last column is not padded. */
export function table(rows: readonly (readonly string[])[], gap = 2): string {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, index) =>
    Math.max(...rows.map((row) => visibleWidth(row[index] ?? ""))),
  );
  const pad = (cell: string, index: number): string =>
    cell + " ".repeat((widths[index] ?? 0) - visibleWidth(cell) + gap);
  return rows
    .map((row) => row.map((cell, index) => (index === row.length - 1 ? cell : pad(cell, index))).join(""))
    .join("\n");
}

function visibleWidth(text: string): number {
  return stripVTControlCharacters(text).length;
}

/** A line that moves while something takes longer than a second; silent where no terminal shows it. */
export async function withSpinner<Value>(
  context: CliContext,
  text: string,
  work: () => Promise<Value>,
): Promise<Value> {
  if (!context.isTerminal) return work();
  const { default: createSpinner } = await import("yocto-spinner");
  const spinner = createSpinner({ text, stream: process.stderr });
  const delay = setTimeout(() => spinner.start(), 1000);
  try {
    return await work();
  } finally {
    clearTimeout(delay);
    if (spinner.isSpinning) spinner.stop();
  }
}

export function clockTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 23);
}
