/** The program of the page behind links of text messages, as browsers load it. */
import { readFile } from "node:fs/promises";
import { findPackageJSON } from "node:module";
import { dirname, join } from "node:path";

/** Where the build puts it, in this package. */
const BUILT = "dist/join-page.js";
/** In a checkout nothing is built: the same bundler makes it when it is first asked for. */
const BUNDLER = "../../../../scripts/build/bundle-join-page.ts";

let script: Promise<string> | undefined;

export function joinPageScript(): Promise<string> {
  script ??= load().catch((error: unknown) => {
    script = undefined;
    throw error;
  });
  return script;
}

async function load(): Promise<string> {
  if (import.meta.url.endsWith(".ts")) {
    const bundler: { bundleJoinPage(): Promise<string> } = await import(new URL(BUNDLER, import.meta.url).href);
    return bundler.bundleJoinPage();
  }
  const manifest = findPackageJSON(import.meta.url);
  if (manifest === undefined) throw new Error("the package leafmesh has no package.json");
  return readFile(join(dirname(manifest), BUILT), "utf8");
}
