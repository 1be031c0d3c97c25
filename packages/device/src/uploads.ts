/** Bringing a photo or another large answer to the mesh, beside the room. */
import { errorBodySchema, type UploadTarget } from "@leafmesh/protocol";
import { isAllowedHttpAddress } from "./addresses.ts";
import { errorText } from "./error-text.ts";

/** Refers to a file on the mesh. Return it, or put it anywhere into what the handler returns. */
export interface UploadReference {
  readonly upload: string;
  readonly media_type: string;
  readonly size: number;
}

/**
 * `not_offered`: this mesh takes no files. `bad_name`, `too_large`: refused before anything was sent. `refused`: the mesh
 * said no. `unreachable`: no answer; the file may be there, but nobody can refer to it.
 */
export type UploadErrorKind = "not_offered" | "bad_name" | "too_large" | "refused" | "unreachable";

/** Why a file did not get to the mesh. A handler that lets it through answers `failed` with code `upload_<kind>`. */
export class UploadError extends Error {
  override readonly name = "UploadError";
  readonly kind: UploadErrorKind;

  constructor(kind: UploadErrorKind, message: string, more: { readonly cause?: unknown } = {}) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.kind = kind;
  }
}

export interface UploadFile {
  /** 1 to 64 letters, digits, dots, hyphens or underscores. */
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** For example `image/png`. */
  readonly mediaType: string;
}

/** Puts one file at the address that came with the task. The token is one-use: a second file needs a second task. */
export async function uploadFile(
  target: UploadTarget | undefined,
  file: UploadFile,
  { fetch, signal }: { readonly fetch: typeof globalThis.fetch; readonly signal: AbortSignal },
): Promise<UploadReference> {
  const { name, bytes, mediaType } = file;
  if (!target) throw new UploadError("not_offered", "This mesh takes no files: its public address is not set");
  if (!isAllowedHttpAddress(target.url)) {
    throw new UploadError("not_offered", "The mesh's upload address is neither https nor on this machine");
  }
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(name)) {
    throw new UploadError("bad_name", "A file name is 1 to 64 letters, digits, dots, hyphens or underscores");
  }
  if (bytes.byteLength > target.max_bytes) {
    throw new UploadError("too_large", `${name} has ${bytes.byteLength} bytes, the mesh takes ${target.max_bytes}`);
  }
  let response: Response;
  try {
    response = await fetch(`${target.url.replace(/\/+$/, "")}/${name}`, {
      method: "PUT",
      redirect: "error",
      signal,
      headers: { authorization: `Bearer ${target.token}`, "content-type": mediaType },
      body: bytes,
    });
  } catch (cause) {
    throw new UploadError("unreachable", `${name} could not be brought to the mesh: ${errorText(cause)}`, { cause });
  }
  if (!response.ok) {
    throw new UploadError("refused", `The mesh did not take ${name}: ${await refusalOf(response)}`);
  }
  await response.body?.cancel();
  return { upload: name, media_type: mediaType, size: bytes.byteLength };
}

async function refusalOf(response: Response): Promise<string> {
  const body = errorBodySchema.safeParse(await response.json().catch(() => undefined));
  return body.success ? body.data.error.message : `status ${response.status}`;
}
