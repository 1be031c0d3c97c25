/** A running mesh, as commands call it: where it is, and its refusals as sentences for a person. */
import { type Client, createClient, LeafMeshError } from "@leafmesh/client";
import { type CliContext, EXIT } from "./context.ts";
import { CommandFailure } from "./failure.ts";

/** Options of every command that talks to a running mesh. */
export interface MeshAddress {
  readonly url?: string | undefined;
  readonly key?: string | undefined;
}

const DEFAULT_URL = "http://127.0.0.1:18820";

/**
 * Does `work` with the mesh at `--url`, else LEAFMESH_URL, else the default port on loopback; with `--key`, else
 * LEAFMESH_API_KEY. Throws a {@link CommandFailure} for what the mesh refuses.
 */
export async function withMesh<Value>(
  { url, key }: MeshAddress,
  context: CliContext,
  work: (mesh: Client) => Promise<Value>,
): Promise<Value> {
  const address = url ?? context.env.LEAFMESH_URL ?? DEFAULT_URL;
  const apiKey = key ?? context.env.LEAFMESH_API_KEY;
  const mesh = openClient(address, apiKey);
  try {
    return await work(mesh);
  } catch (error) {
    if (error instanceof LeafMeshError && !context.signal.aborted)
      throw toFailure(error, mesh.url, apiKey !== undefined);
    throw error;
  }
}

function openClient(url: string, apiKey: string | undefined): Client {
  try {
    // A person waits: say at once what does not work.
    return createClient({ url, apiKey, maxTries: 1 });
  } catch (cause) {
    throw new CommandFailure(`--url ${url} is not an address.`, {
      exitCode: EXIT.usage,
      hint: `Give it with its scheme, such as ${DEFAULT_URL}.`,
      cause,
    });
  }
}

function toFailure(error: LeafMeshError, url: string, sentKey: boolean): CommandFailure {
  if (error.code === "unreachable") {
    return new CommandFailure(`There is no mesh at ${url}.`, {
      hint: "Start one with `leafmesh run`, or name another with --url.",
      cause: error,
    });
  }
  if (error.status !== 401) return new CommandFailure(error.message, { cause: error });
  return new CommandFailure(sentKey ? "The mesh does not know this API key." : "The mesh wants an API key.", {
    hint: "Give it with --key, or in LEAFMESH_API_KEY.",
    cause: error,
  });
}
