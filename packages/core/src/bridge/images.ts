/** The one image that a result may carry, lifted out of its JSON. Pure. */
import { checkedMediaType } from "../uploads/media-types.ts";

export const MAX_IMAGE_BYTES = 5 * 1024 * 1024;

const IMAGE_TYPES = ["image/jpeg", "image/png", "image/webp", "image/gif"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

export interface LiftedImage {
  readonly mediaType: ImageType;
  readonly bytes: Uint8Array;
}

export type Lifted =
  | { readonly ok: true; readonly result: unknown; readonly image?: LiftedImage | undefined }
  | { readonly ok: false; readonly message: string };

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * Takes `image_base64` and `image_media_type` out of a result object that has a non-empty image at its top level; any
 * other result comes back as it is. The content decides the type: one that only claims to be an image would make a
 * model provider refuse the whole request.
 */
export function liftImage(result: unknown): Lifted {
  if (typeof result !== "object" || result === null || Array.isArray(result)) return { ok: true, result };
  if (!("image_base64" in result) || typeof result.image_base64 !== "string" || result.image_base64 === "") {
    return { ok: true, result };
  }
  const { image_base64: base64, image_media_type: declared, ...rest } = result as Record<string, unknown>;
  if (declared !== undefined && declared !== null && !IMAGE_TYPES.some((type) => type === declared)) {
    return { ok: false, message: `result.image_media_type must be one of ${IMAGE_TYPES.join(", ")}` };
  }
  const bytes = decoded(String(base64));
  if (!bytes) return { ok: false, message: "result.image_base64 is not base64" };
  if (bytes.length > MAX_IMAGE_BYTES) {
    return { ok: false, message: `result.image_base64 is larger than ${MAX_IMAGE_BYTES} bytes of image` };
  }
  const mediaType = IMAGE_TYPES.find((type) => checkedMediaType(type, bytes));
  if (!mediaType) return { ok: false, message: "result.image_base64 is not a JPEG, PNG, WebP or GIF image" };
  return { ok: true, result: rest, image: { mediaType, bytes } };
}

function decoded(text: string): Uint8Array | undefined {
  const bare = text.replace(/\s+/g, "");
  return BASE64.test(bare) ? Buffer.from(bare, "base64") : undefined;
}
