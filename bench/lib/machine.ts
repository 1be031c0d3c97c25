/** What the kernel says about this machine and its processes. Linux only. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism, cpus, release, totalmem } from "node:os";
import { setTimeout as pause } from "node:timers/promises";

/** Length of a tick of the CPU counters in /proc. */
const TICK_MS = 10;

/** User and system CPU time that a process has used, its threads included. */
export function cpuMsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name in parentheses may hold anything, so fields are counted from its end.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Resident memory of a process in megabytes. */
export function rssMbOf(pid: number): number {
  const kilobytes = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1024;
}

export interface MachineLoad {
  readonly busyMs: number;
  readonly totalMs: number;
}

export function machineLoad(): MachineLoad {
  const fields = (readFileSync("/proc/stat", "utf8").split("\n")[0] ?? "").trim().split(/\s+/).slice(1, 9).map(Number);
  const total = fields.reduce((sum, ticks) => sum + ticks, 0);
  const idle = (fields[3] ?? 0) + (fields[4] ?? 0);
  return { busyMs: (total - idle) * TICK_MS, totalMs: total * TICK_MS };
}

/** Share of the machine that processes other than the measured ones used between two readings. */
export function othersShare(before: MachineLoad, after: MachineLoad, ownMs: number): number {
  return Math.max(0, (after.busyMs - before.busyMs - ownMs) / (after.totalMs - before.totalMs));
}

/** Waits until the machine has been nearly idle for half a second, but not for ever. */
export async function calm(limit = 0.15, longestMs = 10_000): Promise<void> {
  const end = performance.now() + longestMs;
  while (performance.now() < end) {
    const before = machineLoad();
    await pause(500);
    if (othersShare(before, machineLoad(), 0) < limit) return;
  }
}

/** Whether processes can be pinned: two cores and `taskset`. */
export function canPin(): boolean {
  if (availableParallelism() < 2) return false;
  try {
    execFileSync("taskset", ["-c", "0", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

export function describeMachine(): string {
  const [cpu] = cpus();
  const memory = Math.round(totalmem() / 1024 ** 3);
  return `${availableParallelism()} × ${cpu?.model.trim() ?? "unknown CPU"}, ${memory} GiB, kernel ${release()}, Node ${process.version}`;
}
