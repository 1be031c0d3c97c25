/** `leafmesh keys show`: the public keys that a device checks rings against. */
import type { MeshKey } from "@leafmesh/protocol";
import { type ApiOptions, createApiClient } from "../api-client.ts";
import { type CliContext, EXIT, type ExitCode } from "../context.ts";
import { table, writeJson, writeLine } from "../output.ts";

export interface ShowKeysOptions extends ApiOptions {
  readonly json?: boolean | undefined;
}

export async function showKeys(options: ShowKeysOptions, context: CliContext): Promise<ExitCode> {
  const api = createApiClient(options, context);
  const { keys } = await api.get<{ keys: readonly MeshKey[] }>("/.well-known/leafmesh-keys");
  if (options.json) writeJson(context.stdout, keys);
  else writeLine(context.stdout, table(keys.map((key) => [key.kid, key.crv, key.x])));
  return EXIT.ok;
}
