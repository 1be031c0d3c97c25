/** Loads a mesh from a real file. */
import { dirname, resolve } from "node:path";
import { type FileFailure, readFileBytes, readTextFile } from "./files.ts";
import { type LoadedMesh, type LoadMeshOptions, loadMesh, refuseFile } from "./load-mesh.ts";
import type { ReadFile } from "./resolve-references.ts";
import { aboutSize, DEFAULT_MAX_BYTES, HIGHEST_MAX_BYTES } from "./source-text.ts";

export interface LoadMeshFileOptions extends Omit<LoadMeshOptions, "readFile" | "folder" | "file"> {
  /** What a relative path is relative to. */
  readonly cwd: string;
  /** For `${file:path}`; the file system if left out. */
  readonly readFile?: ReadFile | undefined;
}

/** `path` as the operator wrote it: findings call the file by it. */
export function loadMeshFile(path: string, options: LoadMeshFileOptions): LoadedMesh {
  const absolutePath = resolve(options.cwd, path);
  const maxBytes = Math.min(options.maxBytes ?? DEFAULT_MAX_BYTES, HIGHEST_MAX_BYTES);
  const file = readFileBytes(absolutePath, maxBytes);
  if (!file.ok) return refuseFile(path, ...aboutFailure(file.why, maxBytes));
  const readFile = options.readFile ?? readTextFile;
  return loadMesh(file.bytes, { ...options, readFile, folder: dirname(absolutePath), file: path });
}

/**
 * Which of these names stand anywhere in the file, also where they mean something else: what has to be loaded before the
 * file can be read. None when it cannot be read; {@link loadMeshFile} says why.
 */
export function namesInFile(
  path: string,
  { cwd, maxBytes = DEFAULT_MAX_BYTES }: Pick<LoadMeshFileOptions, "cwd" | "maxBytes">,
  names: ReadonlySet<string>,
): ReadonlySet<string> {
  const file = readFileBytes(resolve(cwd, path), Math.min(maxBytes, HIGHEST_MAX_BYTES));
  if (!file.ok) return new Set();
  const text = new TextDecoder().decode(file.bytes);
  return new Set([...names].filter((name) => text.includes(name)));
}

function aboutFailure(why: FileFailure, maxBytes: number): [message: string, hint: string] {
  switch (why) {
    case "missing":
      return ["there is no such file", "name the mesh file, or make one with leafmesh new"];
    case "not_permitted":
      return ["this file may not be read by this process", "check its owner and mode"];
    case "not_a_file":
      return ["this is not a regular file", "name the mesh file itself"];
    case "too_large":
      return aboutSize(maxBytes);
    default:
      return ["this file could not be read", "check the disk that it is on"];
  }
}
