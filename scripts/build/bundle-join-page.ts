/** The page behind links of text messages: the device kit for browsers and what the page does with it, as one file. */
import { join, resolve } from "node:path";
import { build } from "esbuild";

const cli = resolve(import.meta.dirname, "../../packages/cli");

/** The text of an ES module without imports. */
export async function bundleJoinPage(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(cli, "src/join-page/page.ts")],
    bundle: true,
    write: false,
    platform: "browser",
    format: "esm",
    target: "es2022",
    conditions: ["leafmesh-source"],
    minify: true,
    legalComments: "none",
    logLevel: "warning",
  });
  const [output] = outputFiles;
  if (!output) throw new Error("build: the page has no program");
  return output.text;
}
