/** The licenses of what a bundle took in, which have to travel with it. */
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** `inputs`: the bundled files, relative to `folder` as esbuild names them. */
export function licensesOf(inputs: readonly string[], folder: string): string {
  const roots = new Set<string>();
  for (const input of inputs.filter((each) => each.startsWith("."))) {
    const root = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1];
    if (root) roots.add(resolve(folder, root));
  }
  const entries = [...roots].map(licenseOf).sort((a, b) => a.title.localeCompare(b.title));
  return entries.map(({ title, text }) => `${title}\n${"-".repeat(title.length)}\n\n${text.trim()}\n`).join("\n\n");
}

function licenseOf(root: string): { readonly title: string; readonly text: string } {
  const { name, version, license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const file = readdirSync(root).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry));
  const text = file ? readFileSync(join(root, file), "utf8") : "The package holds no text of its license.";
  return { title: `${name} ${version} (${license})`, text };
}
