/** `leafmesh new`: a mesh.yaml to start from, with its schema for the editor. */
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join, relative, resolve } from "node:path";
import type { ProviderRegistry } from "@leafmesh/core";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { CommandFailure } from "../failure.ts";
import { palette, writeLine } from "../output.ts";
import { renderSchema } from "./schema.ts";

export interface NewOptions {
  readonly folder: string;
  /** Overwrite mesh.yaml and mesh.schema.json. */
  readonly force?: boolean | undefined;
}

const STATE_FOLDER = ".leafmesh/";

/** Writes all files or, when one of them would be overwritten, none. An existing .gitignore only gets a line. */
export async function newMesh(options: NewOptions, context: CliContext, registry: ProviderRegistry): Promise<ExitCode> {
  const folder = resolve(context.cwd, options.folder);
  const files = { "mesh.yaml": meshTemplate(meshName(folder)), "mesh.schema.json": renderSchema(registry) };
  try {
    await mkdir(folder, { recursive: true });
    if (!options.force) await refuseToOverwrite(folder, Object.keys(files));
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    await ignoreState(join(folder, ".gitignore"));
  } catch (cause) {
    if (cause instanceof CommandFailure) throw cause;
    throw new CommandFailure(`cannot write to ${folder}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  announce(folder, Object.keys(files), context);
  return EXIT.ok;
}

async function refuseToOverwrite(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const exists = await access(join(folder, name)).then(
      () => true,
      () => false,
    );
    if (exists) throw new CommandFailure(`${join(folder, name)} exists already`, { hint: "--force overwrites it" });
  }
}

/** Sessions and push tokens of the mesh do not belong into a repository. */
async function ignoreState(path: string): Promise<void> {
  const text = await readFile(path, "utf8").catch(() => "");
  if (text.split(/\r?\n/).some((line) => /^\/?\.leafmesh\/?$/.test(line.trim()))) return;
  const separator = text === "" || text.endsWith("\n") ? "" : "\n";
  await writeFile(path, `${text}${separator}${STATE_FOLDER}\n`);
}

function announce(folder: string, names: readonly string[], context: CliContext): void {
  const shown = relative(context.cwd, folder) || ".";
  for (const name of names) writeLine(context.stdout, `wrote ${join(shown, name)}`);
  const enter = shown === "." ? "" : `cd ${shown} && `;
  const colors = palette(context);
  writeLine(context.stdout, `\nNext: ${colors.cyan(`${enter}leafmesh run`)}  (needs OPENAI_API_KEY)`);
  writeLine(context.stdout, `Then: ${colors.cyan("leafmesh chat --device phone-7")}`);
}

/** The folder's name, as far as a mesh may be called so. */
function meshName(folder: string): string {
  const name = basename(folder)
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[-.]+/, "")
    .slice(0, 64);
  return name === "" ? "my-mesh" : name;
}

function meshTemplate(name: string): string {
  return `# yaml-language-server: $schema=./mesh.schema.json
name: "${name}"

connections:
  my_phones:
    provider: direct          # built in: rings a device over the socket that it holds to this mesh

agents:
  phone_helper:
    name: "phone_helper"
    model: "gpt-4o-mini"      # or <entry>/<model> with an entry under models:
    prompt: |
      Help the customer with their phone. Use device_action to read or
      change something on it when they ask you to.
    device:
      connection: "my_phones" # a connection that rings the device (required)
      approval: "ask"         # ask (default): the person allows each connection | silent
                              # room: left out, they meet in this mesh's own rooms

entry_points:
  - name: chat
    target: phone_helper
`;
}
