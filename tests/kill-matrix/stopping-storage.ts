/** Stands where the command's storage stands, and is it, up to one commit. See stop-at.program.ts. */
import { writeSync } from "node:fs";
import type { Backend, Write } from "@leafmesh/core/storage";
import { SETTLED_CALL_STATES } from "@leafmesh/core/storage";
import * as real from "../../packages/cli/src/runtime/storage.ts";
import { type CommitKind, STOP_AT, type StopPoint } from "./stop-point.ts";

export const { createBackend, dataFolderOf } = real;

export async function openStorage(
  options: real.StorageOptions,
  onOpened: (backend: Backend) => void,
): Promise<real.Storage> {
  const opened = await real.openStorage(options, onOpened);
  const point = process.env[STOP_AT];
  return point === undefined ? opened : { ...opened, backend: stopping(opened.backend, JSON.parse(point)) };
}

function stopping(backend: Backend, { kind, nth = 1, when, how }: StopPoint): Backend {
  let seen = 0;
  const stop = (): Promise<never> => {
    writeSync(1, `${JSON.stringify({ event: "stopped", at: `${when} ${kind}` })}\n`);
    if (how === "freeze") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    return new Promise(() => {});
  };
  const commit: Backend["commit"] = async (writes) => {
    const isIt = isOf(kind, writes) && ++seen === nth;
    if (isIt && when === "before") return stop();
    const result = await backend.commit(writes);
    return isIt ? stop() : result;
  };
  return new Proxy(backend, {
    get(target, name) {
      if (name === "commit") return commit;
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

function isOf(kind: CommitKind, writes: readonly Write[]): boolean {
  switch (kind) {
    case "stored":
      return writes.some((write) => write.kind === "call.create");
    case "settled":
      return writes.some((write) => write.kind === "call.update" && isSettled(write.patch.state));
    case "used":
      return writes.some((write) => write.kind === "message.append" && write.message.message.role === "tool");
  }
}

function isSettled(state: string | undefined): boolean {
  return SETTLED_CALL_STATES.some((settled) => settled === state);
}
