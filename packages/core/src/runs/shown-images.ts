/** Which images of a conversation a model is shown: the newest few, filled in from the upload store. */
import type { Logger } from "@leafmesh/protocol";
import type { ImagePart } from "../models/contract.ts";
import { StorageError } from "../storage/contract.ts";
import { type Entry, isToolEntry, type ShownImages, type ToolEntry } from "./conversation.ts";

/** Images in one model request. They cost as much as pages of text, and the newest are what the talk is about. */
export const MAX_IMAGES_SHOWN = 4;

/** Reads what a device uploaded. */
export interface UploadReader {
  /** `undefined` when it is gone, for example because its session has ended. */
  open(uploadId: string): Promise<{ readonly mediaType: string; readonly bytes: Uint8Array } | undefined>;
}

const NONE: ShownImages = new Map();

/** One run's images: each upload is opened at most once a run. */
export class ImageShelf {
  readonly #uploads: UploadReader;
  readonly #logger: Logger;
  readonly #opened = new Map<string, ImagePart | undefined>();

  constructor(uploads: UploadReader, logger: Logger) {
    this.#uploads = uploads;
    this.#logger = logger;
  }

  /** At most {@link MAX_IMAGES_SHOWN} images, the newest, per entry in their own order. */
  async choose(entries: readonly Entry[]): Promise<ShownImages> {
    let shown: Map<Entry, readonly ImagePart[]> | undefined;
    let room = MAX_IMAGES_SHOWN;
    for (let index = entries.length - 1; index >= 0 && room > 0; index--) {
      const entry = entries[index];
      if (!entry || !isToolEntry(entry) || !(entry.images?.length || entry.message.uploads?.length)) continue;
      const images = (await this.#imagesOf(entry)).slice(-room);
      room -= images.length;
      shown ??= new Map();
      shown.set(entry, images);
    }
    return shown ?? NONE;
  }

  async #imagesOf(entry: ToolEntry): Promise<readonly ImagePart[]> {
    if (entry.images?.length) return entry.images;
    const images: ImagePart[] = [];
    for (const uploadId of entry.message.uploads ?? []) {
      const image = await this.#open(uploadId);
      if (image) images.push(image);
    }
    return images;
  }

  async #open(uploadId: string): Promise<ImagePart | undefined> {
    if (!this.#opened.has(uploadId)) this.#opened.set(uploadId, await this.#read(uploadId));
    return this.#opened.get(uploadId);
  }

  async #read(uploadId: string): Promise<ImagePart | undefined> {
    try {
      const upload = await this.#uploads.open(uploadId);
      const mediaType = upload && imageType(upload.mediaType);
      if (!upload || !mediaType) return undefined;
      return { type: "image", mediaType, base64: Buffer.from(upload.bytes).toString("base64") };
    } catch (error) {
      if (error instanceof StorageError) throw error;
      this.#logger.warn("an upload cannot be opened and is not shown to the model", { uploadId, error });
      return undefined;
    }
  }
}

function imageType(mediaType: string): ImagePart["mediaType"] | undefined {
  switch (mediaType) {
    case "image/jpeg":
    case "image/png":
    case "image/webp":
    case "image/gif":
      return mediaType;
    default:
      return undefined;
  }
}
