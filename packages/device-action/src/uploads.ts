/** What an ask needs of the mesh's upload store: a place for answers that are too large for a message. */
import type { ImagePart } from "@leafmesh/core";
import type { UploadTarget } from "@leafmesh/protocol";

/** A file that a device brought. */
export interface BroughtFile {
  /** Id of the stored upload: what the history keeps. */
  readonly id: string;
  /** Present when the file is an image that a model can be shown. */
  readonly image?: ImagePart | undefined;
}

export interface UploadRequest {
  readonly callId: string;
  readonly sessionId: string;
  /** Provider that rings the device, for a mesh that some devices reach only through loopback. */
  readonly notifier: string;
}

export interface AskUploads {
  /**
   * Lets the ask's device bring a file until the ask has its outcome. `undefined` when the device has no address to reach
   * the mesh at: the task then offers no uploads.
   */
  open(ask: UploadRequest): UploadTarget | undefined;
  /** The file that the ask's device brought under `name`. */
  find(callId: string, name: string): Promise<BroughtFile | undefined>;
}
