/** Reads files that an operator names: bounded, regular files only, every failure a value. */
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import type { FileText } from "./resolve-references.ts";

export type FileFailure = Extract<FileText, { ok: false }>["why"];

export type FileBytes =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly why: Exclude<FileFailure, "not_text"> };

/** At most `maxBytes`; a larger file is `too_large`. A pipe or device is refused without waiting for its other end. */
export function readFileBytes(path: string, maxBytes: number): FileBytes {
  let file: number | undefined;
  try {
    file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    if (!fstatSync(file).isFile()) return { ok: false, why: "not_a_file" };
    const bytes = readUpTo(file, maxBytes + 1);
    return bytes.byteLength > maxBytes ? { ok: false, why: "too_large" } : { ok: true, bytes };
  } catch (error) {
    return { ok: false, why: reasonOf(error) };
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** UTF-8 text without a byte order mark; the `readFile` of a loader that works on real files. */
export function readTextFile(path: string, maxBytes: number): FileText {
  const file = readFileBytes(path, maxBytes);
  if (!file.ok) return file;
  try {
    return { ok: true, text: new TextDecoder("utf-8", { fatal: true }).decode(file.bytes) };
  } catch {
    return { ok: false, why: "not_text" };
  }
}

const CHUNK_BYTES = 64 * 1024;

function readUpTo(file: number, most: number): Uint8Array {
  const chunks: Uint8Array[] = [];
  for (let left = most; left > 0; ) {
    const chunk = new Uint8Array(Math.min(CHUNK_BYTES, left));
    const read = readSync(file, chunk);
    if (read === 0) break;
    chunks.push(chunk.subarray(0, read));
    left -= read;
  }
  return Buffer.concat(chunks);
}

function reasonOf(error: unknown): Exclude<FileFailure, "not_text"> {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "ENOENT" || code === "ENOTDIR") return "missing";
  if (code === "EACCES" || code === "EPERM") return "not_permitted";
  return code === "EISDIR" || code === "ENXIO" ? "not_a_file" : "unreadable";
}
