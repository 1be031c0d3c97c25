/** Rows of cells as Markdown, columns aligned, numbers to the right. */
export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length)));
  const isNumber = head.map((_, column) => rows.every((row) => /^[±–\-\d.,×% ]*$/.test(row[column] ?? "")));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => (isNumber[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0))).join(" | ")} |`;
  const rule = `|${widths.map((width, column) => (isNumber[column] ? `${"-".repeat(width + 1)}:` : "-".repeat(width + 2))).join("|")}|`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}
