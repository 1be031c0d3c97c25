/** Addresses that come from devices, such as the endpoint of a web push subscription: only into hosts that are listed. Pure. */
import { isIP } from "node:net";
import type { RefusedBecause } from "./guarded-fetch.ts";
import { hostOf, parseUrl } from "./web-address.ts";

/**
 * Why an address is not one of `hosts` or below one, as far as the address alone tells. A host counts on a boundary of
 * its names: `notify.windows.com` takes `db5.notify.windows.com` and not `evil-notify.windows.com`. Only https on the
 * usual port, and no numeric address, whatever is listed.
 */
export function judgeListedUrl(url: string, hosts: readonly string[]): RefusedBecause | undefined {
  const parsed = parseUrl(url);
  if (!parsed) return "bad_url";
  if (parsed.protocol !== "https:") return "not_https";
  const host = hostOf(parsed);
  if (isIP(host) !== 0) return "not_public";
  const isListed = parsed.port === "" && hosts.some((listed) => host === listed || host.endsWith(`.${listed}`));
  return isListed ? undefined : "not_listed";
}
