/** A wall clock that the test moves under a running process; its monotonic clock goes on, as on a real machine. */
import { globSync, mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface ShiftedClock {
  /** For the process's environment. */
  readonly env: Record<string, string>;
  /** From now on the process's wall clock is so many seconds off. */
  shift(seconds: number): void;
}

/** Debian's libfaketime; https://github.com/wolfcw/libfaketime */
const [library] = globSync("/usr/lib/*/faketime/libfaketimeMT.so.1");

export function shiftedClockAvailable(): boolean {
  if (library === undefined && process.env.LEAFMESH_STRICT === "1") {
    throw new Error("Not found: libfaketime. On Debian: apt-get install faketime");
  }
  return library !== undefined;
}

export function createShiftedClock(): ShiftedClock {
  const folder = mkdtempSync(join(tmpdir(), "leafmesh-clock-"));
  const file = join(folder, "offset");
  const shift = (seconds: number): void => {
    writeFileSync(`${file}.new`, `${seconds < 0 ? "" : "+"}${seconds}\n`);
    renameSync(`${file}.new`, file);
  };
  shift(0);
  return {
    env: {
      LD_PRELOAD: library ?? "",
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
    shift,
  };
}
