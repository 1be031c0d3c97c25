import { createHash } from "node:crypto";
import { type Clock, Secret } from "@leafmesh/protocol";
import { SealError, type Sealer } from "../security/sealer.ts";
import { type Backend, type CallState, OPEN_CALL_STATES, type UploadRecord } from "../storage/contract.ts";
import { checkedMediaType } from "./media-types.ts";

/** The address and the one-use token that travel with a task. The address is a path below the mesh's public one. */
export interface UploadOffer {
  readonly target: { readonly path: string; readonly token: Secret };
  readonly maxBytes: number;
}

/** A file as a device brings it. `mediaType` is what the device says it is. */
export interface BroughtUpload {
  readonly callId: string;
  /** 1 to 64 letters, digits, dots, hyphens or underscores, not only dots. */
  readonly name: string;
  readonly token: string;
  readonly mediaType: string;
  readonly content: Uint8Array;
}

export type UploadRefusal = "bad_token" | "used" | "expired" | "too_large" | "bad_type" | "bad_name";

export type AcceptedUpload =
  | { readonly ok: true; readonly uploadId: string; readonly size: number }
  /** `expired`: the call or its session has ended. After any other refusal than `used` the token is still good. */
  | { readonly ok: false; readonly code: UploadRefusal };

export interface OpenedUpload {
  readonly id: string;
  readonly sessionId: string;
  readonly callId: string;
  readonly name: string;
  readonly mediaType: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Files that devices bring beside their replies, one a call. Every process of a mesh takes them, before and after a
 * restart: a token says by itself whose it is, and is good while its call is open. Files lie sealed in the store until
 * their session ends.
 */
export interface Uploads {
  /** Bytes that one file may have. */
  readonly maxBytes: number;
  /** Lets the call's device bring one file, until the call is settled. */
  offer(call: { readonly callId: string; readonly sessionId: string }): UploadOffer;
  /** Whether the token would be taken now; to be asked before a body is read. Throws `StorageError`. */
  expects(callId: string, token: string): Promise<boolean>;
  /** Checks and stores the file. Throws `StorageError` when the store fails; the token is good for another try then. */
  accept(upload: BroughtUpload): Promise<AcceptedUpload>;
  /** The file that the call's device brought under `name`. */
  find(callId: string, name: string): Promise<OpenedUpload | undefined>;
  /** `undefined` when there is none, or its session has ended. Throws `SealError` when it does not open. */
  open(uploadId: string): Promise<OpenedUpload | undefined>;
}

export interface UploadsOptions {
  readonly backend: Backend;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly maxBytes: number;
}

const OPEN_STATES: ReadonlySet<CallState> = new Set(OPEN_CALL_STATES);
const NAME = /^(?!\.+$)[A-Za-z0-9._-]{1,64}$/;

export function createUploads({ backend, sealer, clock, maxBytes }: UploadsOptions): Uploads {
  /** Whose token it is; `undefined` when it is not the call's. */
  const sessionOf = (callId: string, token: string): string | undefined => {
    try {
      return sealer.open(token, tokenContext(callId));
    } catch (error) {
      if (error instanceof SealError) return undefined;
      throw error;
    }
  };

  const isOpen = async (callId: string): Promise<boolean> => {
    const call = await backend.call(callId);
    return call !== undefined && OPEN_STATES.has(call.state);
  };

  const check = (upload: BroughtUpload) => {
    if (!NAME.test(upload.name)) return refused("bad_name");
    if (upload.content.length > maxBytes) return refused("too_large");
    const mediaType = checkedMediaType(upload.mediaType, upload.content);
    if (!mediaType) return refused("bad_type");
    return { ok: true, mediaType } as const;
  };

  const open = async (uploadId: string): Promise<OpenedUpload | undefined> => {
    const record = await backend.upload(uploadId);
    if (!record) return undefined;
    const { id, sessionId, callId, name, mediaType, sealedContent } = record;
    return { id, sessionId, callId, name, mediaType, bytes: sealer.open(sealedContent, context(sessionId, id)) };
  };

  return {
    maxBytes,

    offer({ callId, sessionId }) {
      const token = new Secret(sealer.seal(sessionId, tokenContext(callId)));
      return { target: { path: `/api/asks/${callId}/uploads`, token }, maxBytes };
    },

    async expects(callId, token) {
      if (sessionOf(callId, token) === undefined || !(await isOpen(callId))) return false;
      return (await backend.upload(uploadIdOf(callId))) === undefined;
    },

    async accept({ callId, name, token, mediaType, content }) {
      const sessionId = sessionOf(callId, token);
      if (sessionId === undefined) return refused("bad_token");
      const checked = check({ callId, name, token, mediaType, content });
      if (!checked.ok) return checked;
      if (!(await isOpen(callId))) return refused("expired");
      const upload = sealedUpload(sealer, {
        ...{ id: uploadIdOf(callId), sessionId, callId, name, mediaType: checked.mediaType, content },
        createdAt: clock.nowMs(),
      });
      const stored = await backend.commit([{ kind: "upload.create", upload }]);
      if (!stored.committed) return refused(stored.reason === "exists" ? "used" : "expired");
      return { ok: true, uploadId: upload.id, size: content.length };
    },

    async find(callId, name) {
      const upload = await open(uploadIdOf(callId));
      return upload?.name === name ? upload : undefined;
    },

    open,
  };
}

/** The record of a file, its content sealed. */
export function sealedUpload(
  sealer: Sealer,
  { content, ...file }: Omit<UploadRecord, "size" | "sealedContent"> & { readonly content: Uint8Array },
): UploadRecord {
  const sealedContent = sealer.seal(content, context(file.sessionId, file.id));
  return { ...file, size: content.length, sealedContent };
}

function refused(code: UploadRefusal) {
  return { ok: false, code } as const;
}

/** What an upload's sealed content is bound to. */
function context(sessionId: string, uploadId: string): string {
  return `upload:${sessionId}:${uploadId}`;
}

/** What a token is bound to. */
function tokenContext(callId: string): string {
  return `upload_token:${callId}`;
}

/** The same for every process, so that the store itself lets a call have one file. */
function uploadIdOf(callId: string): string {
  return `upl_${createHash("sha256").update(callId).digest("base64url").slice(0, 22)}`;
}
