/** A small file system of its own, to fill up. */
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface SmallDisk {
  readonly folder: string;
  /** Takes what space is left. */
  fill(): void;
  /** Gives it back. */
  free(): void;
  unmount(): void;
}

/** Mounts a tmpfs; the sentence says why it cannot be done here. */
export function mountSmallDisk(megabytes: number): SmallDisk | string {
  if (process.platform !== "linux") return "a tmpfs is a thing of Linux";
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-disk-"));
  const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder], {
    encoding: "utf8",
  });
  if (status !== 0) {
    rmdirSync(folder);
    return `mounting a tmpfs is not allowed here: ${(stderr ?? "mount was not found").trim()}`;
  }
  const ballast = join(folder, "ballast");
  return {
    folder,
    fill() {
      const file = openSync(ballast, "w");
      const block = Buffer.alloc(4096);
      try {
        for (;;) writeSync(file, block);
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error;
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(ballast, { force: true }),
    unmount() {
      spawnSync("umount", ["-l", folder]);
      rmdirSync(folder);
    },
  };
}

/** Why {@link mountSmallDisk} does not work here; `undefined` when it does. */
export function reasonWithoutSmallDisk(): string | undefined {
  const disk = mountSmallDisk(1);
  if (typeof disk === "string") return disk;
  disk.unmount();
  return undefined;
}
