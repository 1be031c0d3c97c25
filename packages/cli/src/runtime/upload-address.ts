/** Where a device brings files for its reply. */
import type { ImagePart } from "@leafmesh/core";
import type { Uploads } from "@leafmesh/core/uploads";
import type { AskUploads } from "@leafmesh/device-action";

const IMAGE_TYPES: ReadonlySet<string> = new Set<ImagePart["mediaType"]>([
  "image/jpeg",
  "image/png",
  "image/webp",
  "image/gif",
]);

/** Addresses of the mesh, asked for at every offer. */
export interface MeshAddresses {
  /** `server.public_url`: every device reaches it. */
  publicUrl(): string | undefined;
  /** Where the mesh listens, when only this machine reaches it. */
  loopbackUrl(): string | undefined;
}

/**
 * Without a public address only a device that is rung over its own socket to the mesh is offered one: whoever is rung
 * from elsewhere may be on another machine, where a loopback address leads nowhere.
 */
export function askUploads(uploads: Uploads, addresses: MeshAddresses): AskUploads {
  return {
    open(ask) {
      const base = addresses.publicUrl() ?? (ask.notifier === "direct" ? addresses.loopbackUrl() : undefined);
      if (base === undefined) return undefined;
      const offer = uploads.offer(ask);
      return {
        url: base + offer.target.path,
        token: offer.target.token.reveal(),
        max_bytes: offer.maxBytes,
      };
    },
    async find(callId, name) {
      const file = await uploads.find(callId, name);
      if (!file) return undefined;
      if (!isImage(file.mediaType)) return { id: file.id };
      const base64 = Buffer.from(file.bytes).toString("base64");
      return { id: file.id, image: { type: "image", mediaType: file.mediaType, base64 } };
    },
  };
}

function isImage(mediaType: string): mediaType is ImagePart["mediaType"] {
  return IMAGE_TYPES.has(mediaType);
}
