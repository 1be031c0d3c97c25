import { judgePublicUrl, type PublicRefusal } from "@leafmesh/guarded-fetch";
import type { CallbackSettings } from "../config/mesh.ts";
import { EngineError } from "../runs/engine-error.ts";
import type { Sealer } from "../security/sealer.ts";

/** What a callback's address is sealed for. */
export function callbackContext(runId: string): string {
  return `callback_url:${runId}`;
}

/** An address may hold a token of the app, so it is sealed like one. Throws `bad_callback_url` for one that cannot be called. */
export function sealCallbackUrl(
  url: string,
  runId: string,
  settings: CallbackSettings | undefined,
  sealer: Sealer,
): string {
  if (!settings?.secret) {
    throw new EngineError(
      "bad_callback_url",
      "This mesh signs no notices: set server.callbacks.secret or LEAFMESH_WEBHOOK_SECRET first.",
    );
  }
  const reason = judgePublicUrl(url, settings.allow);
  if (reason) throw new EngineError("bad_callback_url", WHY[reason]);
  return sealer.seal(url, callbackContext(runId));
}

const WHY: Readonly<Record<PublicRefusal, string>> = {
  bad_url: "must be an address that begins with https://, without user and password",
  not_https: "must begin with https://",
  not_public: "must lead into the public internet, or to an origin that server.callbacks.allow lists",
};
