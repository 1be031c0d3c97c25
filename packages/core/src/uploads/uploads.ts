import { type Clock, type NewId, Secret } from "@leafmesh/protocol";
import type { Sealer } from "../security/sealer.ts";
import { hashToken, tokensMatch } from "../security/tokens.ts";
import type { Backend, UploadRecord } from "../storage/contract.ts";
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
  /** `expired` also when the session has ended. After any other refusal than `used` the token is still good. */
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
 * Files that devices bring beside their replies. Tokens are held hashed and in this process alone: a restart voids
 * them, as it ends the asks that they belong to. Files lie sealed in the store until their session ends.
 */
export interface Uploads {
  /** Bytes that one file may have. */
  readonly maxBytes: number;
  /**
   * Lets the call's device bring one file, until `expiresAtMs` (wall clock) or {@link Uploads.withdraw}. A second offer
   * for the same call replaces the first. `undefined` when too many offers are open in this process.
   */
  offer(call: {
    readonly callId: string;
    readonly sessionId: string;
    readonly expiresAtMs: number;
  }): UploadOffer | undefined;
  /** Voids the call's token and forgets what {@link Uploads.find} knows of it. The stored file stays. */
  withdraw(callId: string): void;
  /** Whether the token would be taken now; to be asked before a body is read. */
  expects(callId: string, token: string): boolean;
  /** Checks and stores the file. Throws `StorageError` when the store fails; the token is good for another try then. */
  accept(upload: BroughtUpload): Promise<AcceptedUpload>;
  /** The file that the call's device brought under `name`, while the call's offer is known here. */
  find(callId: string, name: string): Promise<OpenedUpload | undefined>;
  /** `undefined` when there is none, or its session has ended. Throws `SealError` when it does not open. */
  open(uploadId: string): Promise<OpenedUpload | undefined>;
}

export interface UploadsOptions {
  readonly backend: Backend;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly newId: NewId;
  readonly maxBytes: number;
}

interface Offered {
  readonly sessionId: string;
  readonly tokenHash: string;
  /** On the monotonic clock. */
  readonly expiresAt: number;
  taken: boolean;
  brought: { readonly name: string; readonly uploadId: string } | undefined;
}

const MOST_OFFERS = 10_000;
/** An offer is remembered a while beyond its end: a reply that came in time may still be read. */
const REMEMBERED_MS = 5 * 60_000;
const NAME = /^(?!\.+$)[A-Za-z0-9._-]{1,64}$/;

export function createUploads({ backend, sealer, clock, newId, maxBytes }: UploadsOptions): Uploads {
  const offers = new Map<string, Offered>();

  const sweep = (): void => {
    const forgottenBefore = clock.monotonicMs() - REMEMBERED_MS;
    for (const [callId, { expiresAt }] of offers) {
      if (expiresAt < forgottenBefore) offers.delete(callId);
    }
  };

  /** The offer, when the token is its own. */
  const offerFor = (callId: string, token: string): Offered | undefined => {
    const offered = offers.get(callId);
    // Compared even when there is no such call, so that the time does not tell which calls exist.
    const matches = tokensMatch(offered?.tokenHash ?? "", hashToken(token));
    return matches ? offered : undefined;
  };

  const isExpired = (offered: Offered): boolean => clock.monotonicMs() > offered.expiresAt;

  const check = (upload: BroughtUpload, offered: Offered | undefined) => {
    if (!offered) return refused("bad_token");
    if (offered.taken) return refused("used");
    if (isExpired(offered)) return refused("expired");
    if (!NAME.test(upload.name)) return refused("bad_name");
    if (upload.content.length > maxBytes) return refused("too_large");
    const mediaType = checkedMediaType(upload.mediaType, upload.content);
    if (!mediaType) return refused("bad_type");
    return { ok: true, offered, mediaType } as const;
  };

  const store = async (record: UploadRecord): Promise<boolean> => {
    const stored = await backend.commit([{ kind: "upload.create", upload: record }]);
    if (stored.committed) return true;
    if (stored.reason === "exists") throw new Error(`the upload id ${record.id} is taken`);
    return false;
  };

  const open = async (uploadId: string): Promise<OpenedUpload | undefined> => {
    const record = await backend.upload(uploadId);
    if (!record) return undefined;
    const { id, sessionId, callId, name, mediaType, sealedContent } = record;
    return { id, sessionId, callId, name, mediaType, bytes: sealer.open(sealedContent, context(sessionId, id)) };
  };

  return {
    maxBytes,

    offer({ callId, sessionId, expiresAtMs }) {
      if (offers.size >= MOST_OFFERS) sweep();
      if (offers.size >= MOST_OFFERS && !offers.has(callId)) return undefined;
      const token = newId("upt");
      offers.set(callId, {
        sessionId,
        tokenHash: hashToken(token),
        expiresAt: clock.monotonicMs() + (expiresAtMs - clock.nowMs()),
        taken: false,
        brought: undefined,
      });
      return { target: { path: `/api/asks/${callId}/uploads`, token: new Secret(token) }, maxBytes };
    },

    withdraw(callId) {
      offers.delete(callId);
    },

    expects(callId, token) {
      const offered = offerFor(callId, token);
      return offered !== undefined && !offered.taken && !isExpired(offered);
    },

    async accept(upload) {
      const checked = check(upload, offerFor(upload.callId, upload.token));
      if (!checked.ok) return checked;
      const { offered, mediaType } = checked;
      const { callId, name, content } = upload;
      const { sessionId } = offered;
      const id = newId("upl");
      offered.taken = true;
      try {
        const createdAt = clock.nowMs();
        const stored = await store(
          sealedUpload(sealer, { id, sessionId, callId, name, mediaType, content, createdAt }),
        );
        if (!stored) return refused("expired");
      } catch (error) {
        offered.taken = false;
        throw error;
      }
      offered.brought = { name, uploadId: id };
      return { ok: true, uploadId: id, size: content.length };
    },

    async find(callId, name) {
      const brought = offers.get(callId)?.brought;
      return brought?.name === name ? open(brought.uploadId) : undefined;
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
