/** The channel of an app on Windows, which it sends as its push token. Pure. */
import { judgeListedUrl } from "@leafmesh/guarded-fetch";
import * as z from "zod";

/**
 * Where Windows has its channels. An app's own word decides where the operator's access token goes, so it goes nowhere
 * else. https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/wns-overview
 */
export const CHANNEL_HOSTS: readonly string[] = ["notify.windows.com"];

const MAX_LENGTH = 2048;
/** What no client on the way writes in another form: a channel is sent as it was given. */
const AS_IT_IS = /^https:\/\/[A-Za-z0-9._~:/?@!$&()*+,;=%-]+$/;

/** What is wrong with a channel URI; never quotes it. */
export function channelIssue(uri: string): string | undefined {
  if (uri.length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`;
  if (!AS_IT_IS.test(uri) || judgeListedUrl(uri, CHANNEL_HOSTS)) {
    return "must be a channel URI of Windows: https://, and a host below notify.windows.com";
  }
  return new URL(uri).searchParams.get("token") ? undefined : "must be a whole channel URI, with its token";
}

/** The shape of a push token. */
export const channelUri = z.string().superRefine((uri, { addIssue }) => {
  const issue = channelIssue(uri);
  if (issue) addIssue({ code: "custom", message: issue });
});
