export { UPLOAD_MEDIA_TYPES, type UploadMediaType } from "./media-types.ts";
export {
  type AcceptedUpload,
  type BroughtUpload,
  createUploads,
  type OpenedUpload,
  type UploadOffer,
  type UploadRefusal,
  type Uploads,
  type UploadsOptions,
} from "./uploads.ts";
