/** The store of a mesh and the keys that belong to it. */
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Backend, Mesh } from "@leafmesh/core";
import { createSealer, loadMeshKey, loadSecretKey, type Sealer, shareMeshKey } from "@leafmesh/core/security";
import { createEmbeddedBackend } from "@leafmesh/core/storage/embedded";
import { type Clock, type Logger, type NativeRingKey, type NewId, randomId } from "@leafmesh/protocol";

export interface Storage {
  readonly backend: Backend;
  readonly sealer: Sealer;
  /** By which devices recognise the mesh. */
  readonly meshKey: NativeRingKey;
}

export interface StorageOptions {
  readonly mesh: Mesh;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly newId?: NewId | undefined;
  readonly logger: Logger;
}

/** The backend that `storage.url` names, not opened. */
export async function createBackend({ mesh, clock, logger, newId = randomId }: StorageOptions): Promise<Backend> {
  const { address, url, durable } = mesh.storage;
  if (!address) return createEmbeddedBackend({ path: url, durable, clock, logger });
  const { createPostgresBackend } = await import("@leafmesh/core/storage/postgres");
  return createPostgresBackend({ url: address, processId: newId("proc"), clock, logger });
}

/** The folder of what belongs to this machine alone: the SQLite file and the key files. */
export function dataFolderOf(mesh: Mesh): string {
  return mesh.storage.kind === "sqlite" ? dirname(mesh.storage.url) : join(mesh.folder, ".leafmesh");
}

/**
 * Opens the store and its keys. Processes that share a database share the mesh key, too, and must have the same secret
 * key. `onOpened` is given the backend before anything can fail that needs it closed.
 */
export async function openStorage(options: StorageOptions, onOpened: (backend: Backend) => void): Promise<Storage> {
  const { mesh, env, logger } = options;
  const folder = dataFolderOf(mesh);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const backend = await createBackend(options);
  onOpened(backend);
  await backend.migrate();
  const sealer = createSealer(await loadSecretKey({ env, folder, logger }));
  const { peers } = backend;
  const meshKey = peers
    ? await shareMeshKey({ sealer, place: mesh.storage.url, agree: (text) => peers.agree("mesh_key", text) })
    : await loadMeshKey({ folder, sealer });
  return { backend, sealer, meshKey };
}
