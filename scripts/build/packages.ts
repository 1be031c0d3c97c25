/** What the workspace publishes, read from its manifests. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface WorkspacePackage {
  /** Folder under packages/. */
  readonly folderName: string;
  /** The sources that `exports` names, relative to `src`: what others may import. */
  readonly faces: readonly string[];
}

interface Manifest {
  readonly exports: Readonly<Record<string, { readonly "leafmesh-source": string }>>;
}

export function readPackages(folder: string): readonly WorkspacePackage[] {
  return readdirSync(folder).map((folderName) => {
    const manifest: Manifest = JSON.parse(readFileSync(join(folder, folderName, "package.json"), "utf8"));
    const faces = Object.values(manifest.exports).map((face) => face["leafmesh-source"].replace("./src/", ""));
    return { folderName, faces };
  });
}
