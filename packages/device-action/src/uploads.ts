/** A place for answers that are too large for a message: an address and a one-use token that travel with the task. */
import type { ImagePart } from "@leafmesh/core";
import type { Uploads } from "@leafmesh/core/uploads";
import type { UploadTarget } from "@leafmesh/protocol";

/** What an ask needs of the mesh's upload store. */
export type UploadStore = Pick<Uploads, "offer" | "find" | "withdraw">;

export interface UploadAccess {
  readonly store: UploadStore;
  /**
   * Address of the mesh, without a trailing slash, as devices reach it that are rung through `notifierProvider`.
   * `undefined`: they cannot, and tasks offer no uploads.
   */
  addressFor(notifierProvider: string): string | undefined;
}

export function openUpload(
  { store, addressFor }: UploadAccess,
  notifierProvider: string,
  call: Parameters<UploadStore["offer"]>[0],
): UploadTarget | undefined {
  const address = addressFor(notifierProvider);
  const offer = address === undefined ? undefined : store.offer(call);
  if (!offer) return undefined;
  const { target, maxBytes } = offer;
  return { url: `${address}${target.path}`, token: target.token.reveal(), max_bytes: maxBytes };
}

const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/webp", "image/gif"]);

/** The file as a model is shown it; `undefined` for one that is not an image. */
export function toImage(file: { readonly mediaType: string; readonly bytes: Uint8Array }): ImagePart | undefined {
  const { mediaType, bytes } = file;
  if (!isImageType(mediaType)) return undefined;
  return { type: "image", mediaType, base64: Buffer.from(bytes).toString("base64") };
}

function isImageType(mediaType: string): mediaType is ImagePart["mediaType"] {
  return IMAGE_TYPES.has(mediaType);
}
