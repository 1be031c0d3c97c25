/** What a device may bring, and whether the content is what it says. */

export const UPLOAD_MEDIA_TYPES = [
  "image/jpeg",
  "image/png",
  "image/webp",
  "image/gif",
  "application/json",
  "text/plain",
] as const;
export type UploadMediaType = (typeof UPLOAD_MEDIA_TYPES)[number];

/** The type without its parameters when it is one that is taken and the content is of that type. */
export function checkedMediaType(declared: string, content: Uint8Array): UploadMediaType | undefined {
  const bare = declared.split(";", 1)[0]?.trim().toLowerCase();
  const type = UPLOAD_MEDIA_TYPES.find((known) => known === bare);
  return type !== undefined && CONTENT_CHECKS[type](content) ? type : undefined;
}

/** The first bytes of each format: https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern */
const CONTENT_CHECKS: Readonly<Record<UploadMediaType, (content: Uint8Array) => boolean>> = {
  "image/jpeg": (content) => startsWith(content, [0xff, 0xd8, 0xff]),
  "image/png": (content) => startsWith(content, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
  "image/webp": (content) => startsWith(content, ascii("RIFF")) && startsWith(content.subarray(8), ascii("WEBPVP")),
  "image/gif": (content) => startsWith(content, ascii("GIF87a")) || startsWith(content, ascii("GIF89a")),
  "application/json": isJson,
  "text/plain": (content) => decodedText(content) !== undefined,
};

function startsWith(content: Uint8Array, prefix: readonly number[]): boolean {
  return content.length >= prefix.length && prefix.every((byte, index) => content[index] === byte);
}

function ascii(text: string): readonly number[] {
  return [...Buffer.from(text, "ascii")];
}

/** `undefined` for what is not UTF-8, or holds a NUL as binary data does. */
function decodedText(content: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(content);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

function isJson(content: Uint8Array): boolean {
  const text = decodedText(content);
  if (text === undefined) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
