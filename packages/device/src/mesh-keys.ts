import { deadline, type MeshKey, meshKeySchema, systemClock } from "@leafmesh/protocol";
import { isAllowedHttpAddress } from "./addresses.ts";
import { parseJson } from "./frames.ts";

/** Where a mesh publishes the keys that its rings are signed with, below its own address. */
export const MESH_KEYS_PATH = "/.well-known/leafmesh-keys";

const MAX_KEYS_BYTES = 16 * 1024;
const FETCH_WITHIN_MS = 10_000;

export interface FetchMeshKeysOptions {
  readonly fetch?: typeof fetch;
  readonly signal?: AbortSignal;
}

/**
 * Reads a mesh's public keys. `meshUrl` is the mesh's own address, https except on this machine: whoever answers there
 * will be able to ring this device. Keep the result, or compile it in; ask again only where a person can see why.
 */
export async function fetchMeshKeys(meshUrl: string, options: FetchMeshKeysOptions = {}): Promise<readonly MeshKey[]> {
  if (!isAllowedHttpAddress(meshUrl)) {
    throw new TypeError(`The mesh's address "${meshUrl}" is not https, and it is not on this machine`);
  }
  const limit = deadline(systemClock, FETCH_WITHIN_MS, options.signal);
  let response: Response;
  let text: string;
  try {
    response = await (options.fetch ?? fetch)(meshUrl.replace(/\/+$/, "") + MESH_KEYS_PATH, {
      redirect: "error",
      signal: limit.signal,
    });
    text = await response.text();
  } finally {
    limit.dispose();
  }
  if (!response.ok) throw new Error(`The mesh at ${meshUrl} answered ${response.status} when asked for its keys`);
  const keys = text.length <= MAX_KEYS_BYTES ? parseMeshKeys(text) : undefined;
  if (!keys) throw new Error(`The mesh at ${meshUrl} did not answer with keys`);
  return keys;
}

/** Keys from JSON text, either the published `{ "keys": [...] }` or a list alone; `undefined` when it is neither. */
export function parseMeshKeys(text: string): readonly MeshKey[] | undefined {
  const body = parseJson(text);
  const isList = Array.isArray(body);
  const list = !isList && typeof body === "object" && body !== null && "keys" in body ? body.keys : body;
  const parsed = meshKeySchema.array().safeParse(list);
  return parsed.success ? parsed.data : undefined;
}
