/** Loads a mesh again whenever its file, or a file that it reads a value from, has changed. */
import { createHash } from "node:crypto";
import { resolve } from "node:path";
import type { Clock, Logger, Timer } from "@leafmesh/protocol";
import { systemClock } from "@leafmesh/protocol";
import { readTextFile } from "./files.ts";
import type { LoadedMesh } from "./load-mesh.ts";
import { type LoadMeshFileOptions, loadMeshFile } from "./load-mesh-file.ts";

export interface WatchMeshOptions extends LoadMeshFileOptions {
  readonly logger: Logger;
  readonly clock?: Clock | undefined;
  /** How long it must be quiet before the file is read: editors write in several steps. 100 ms if left out. */
  readonly quietMs?: number | undefined;
  /**
   * Called with every load whose outcome can differ from the one before: never twice for the same contents. The mesh
   * that runs stays as it is when the load failed; that is the caller's to see to. Must not throw.
   */
  onChange(loaded: LoadedMesh): void;
}

export interface MeshWatch {
  /** The load that the watch began with. */
  readonly first: LoadedMesh;
  /** After this nothing is called any more. */
  close(): Promise<void>;
}

const DEFAULT_QUIET_MS = 100;

/** Resolves when changes are being seen. */
export async function watchMesh(path: string, options: WatchMeshOptions): Promise<MeshWatch> {
  const { cwd, logger, clock = systemClock, quietMs = DEFAULT_QUIET_MS } = options;
  const meshPath = resolve(cwd, path);
  const watched = new Set([meshPath]);
  let timer: Timer | undefined;
  let isClosed = false;
  let doubted: string | undefined;

  const { watch } = await import("chokidar");
  const start = load(path, options);
  let fingerprint = start.fingerprint;
  const watcher = watch([meshPath, ...start.loaded.files], { ignoreInitial: true, atomic: quietMs });
  for (const file of start.loaded.files) watched.add(file);

  function reload(): void {
    if (isClosed) return;
    const next = load(path, options);
    follow(next.loaded.files);
    if (next.fingerprint === fingerprint) return;
    if (!next.loaded.ok && next.fingerprint !== doubted) {
      // Most likely half written: believed when it reads the same after another quiet time.
      doubted = next.fingerprint;
      reloadSoon();
      return;
    }
    doubted = undefined;
    fingerprint = next.fingerprint;
    options.onChange(next.loaded);
  }

  /** Watches what the mesh now refers to and no longer what it used to. */
  function follow(files: readonly string[]): void {
    const wanted = new Set([meshPath, ...files]);
    const added = [...wanted].filter((file) => !watched.has(file));
    const removed = [...watched].filter((file) => !wanted.has(file));
    for (const file of added) watched.add(file);
    for (const file of removed) watched.delete(file);
    if (added.length > 0) watcher.add(added);
    if (removed.length > 0) watcher.unwatch(removed);
  }

  function reloadSoon(): void {
    timer?.cancel();
    timer = clock.schedule(quietMs, reload);
  }

  watcher.on("all", reloadSoon);
  watcher.on("error", (error) =>
    logger.warn("cannot watch the mesh file for changes", { file: meshPath, error: `${error}` }),
  );
  await new Promise<void>((ready) => watcher.once("ready", () => ready()));
  // What changed between the first load and now was not seen as an event.
  reloadSoon();
  return {
    first: start.loaded,
    async close() {
      isClosed = true;
      timer?.cancel();
      await watcher.close();
    },
  };
}

/** A load, and a digest of everything that it read. */
function load(path: string, options: LoadMeshFileOptions): { loaded: LoadedMesh; fingerprint: string } {
  const hash = createHash("sha256");
  const readFile = options.readFile ?? readTextFile;
  const loaded = loadMeshFile(path, {
    ...options,
    readFile(file, maxBytes) {
      const found = readFile(file, maxBytes);
      hash.update(`${file}\0${found.ok ? `text\0${found.text}` : found.why}\0`);
      return found;
    },
  });
  const outcome = loaded.ok ? loaded.mesh.digest : JSON.stringify(loaded.diagnostics);
  return { loaded, fingerprint: hash.update(outcome).digest("hex") };
}
