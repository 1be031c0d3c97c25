/** `leafmesh keys show`: the public keys that a device checks rings against. */
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { type MeshAddress, withMesh } from "../open-mesh.ts";
import { table, writeJson, writeLine } from "../output.ts";

export interface ShowKeysOptions extends MeshAddress {
  readonly json?: boolean | undefined;
}

export async function showKeys(options: ShowKeysOptions, context: CliContext): Promise<ExitCode> {
  const keys = await withMesh(options, context, (mesh) => mesh.keys({ signal: context.signal }));
  if (options.json) writeJson(context.stdout, keys);
  else writeLine(context.stdout, table(keys.map((key) => [key.kid, key.crv, key.x])));
  return EXIT.ok;
}
