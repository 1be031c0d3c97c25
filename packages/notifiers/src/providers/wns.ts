/**
 * `wns`: rings apps on Windows: a toast with Allow and Deny, or bytes that the app alone gets.
 * https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/wns-overview
 */
import { type Secret, secretString } from "@leafmesh/protocol";
import * as z from "zod";
import {
  type CheckResult,
  defineNotifier,
  type Notifier,
  type ProviderDependencies,
  RingError,
  type RingReceipt,
  type RingRequest,
} from "../contract.ts";
import {
  assertFits,
  checkResult,
  createCachedCredential,
  createDeviceAddressClient,
  createVendorClient,
  type MintedCredential,
} from "../http/index.ts";
import { acceptedId, accessToken } from "./wns-answers.ts";
import { CHANNEL_HOSTS, channelIssue, channelUri } from "./wns-channel.ts";
import { toNotification, type WindowsNotification } from "./wns-notification.ts";

const MAX_BYTES = 5000;
/** Access tokens live for a day. */
const RENEW_BEFORE_MS = 60 * 60_000;
const SCOPE = "https://wns.windows.com/.default";

const options = z.strictObject({
  client_secret: secretString("Entra → App registrations → your app → Certificates & secrets: the value, not the ID."),
  tenant_id: z
    .string()
    .regex(
      /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z0-9-]+(?:\.[a-z0-9-]+)+)$/i,
      "must be the ID of a directory, such as 00000000-0000-0000-0000-000000000000, or one of its domains",
    )
    .max(253)
    .meta({ description: "Entra → App registrations → your app → Overview: Directory (tenant) ID." }),
  client_id: z.guid("must be the ID of an application, such as 00000000-0000-0000-0000-000000000000").meta({
    description: "Entra → App registrations → your app → Overview: Application (client) ID.",
  }),
});
type Options = z.output<typeof options>;

export const wnsNotifier = defineNotifier({
  provider: "wns",
  title: "Windows Push (WNS)",
  description: "Rings apps on Windows 10 and 11 that are made with the Windows App SDK.",
  options,
  pushToken: channelUri,
  traits: { maxBytes: MAX_BYTES, ttl: true, collapse: false, silent: "best-effort", link: false, deadTokens: true },
  docs: {
    setUp: [
      "In Entra, register an application for accounts in any organizational directory. Its overview shows `client_id` " +
        "and `tenant_id`; make `client_secret` under Certificates & secrets.",
      "For a packaged app, ask Microsoft to map its package family name to the application, as the quickstart says. " +
        "Until then every ring ends with `notifier_key_refused`.",
      "The app asks for a channel with `PushNotificationManager.Default.CreateChannelAsync`, and gives the object ID of the " +
        "application's enterprise application.",
    ],
    pushToken:
      "The `Uri` of the channel, exactly as it came. A channel ends after 30 days: the app asks for it at every start.",
    onTheDevice:
      "Takes the ring from the toast's activation, behind its word, or from the bytes of the raw notification, and hands it to `handleRing`.",
    check:
      "Gets an access token. `active` says that tenant, application and secret are right; whether the app's " +
      "package is linked to the application shows with the first ring.",
    goodToKnow: [
      "`ask` is a toast with Allow and Deny. The app's activation gets one of the words `ask` (the toast itself), `allow` " +
        "and `deny`, a space, and the ring.",
      "`silent` is a raw notification with the ring as its bytes. Windows drops it when the app is neither running nor " +
        "registered to be woken, and when the device saves its battery.",
      "Windows keeps one raw notification for a device that is offline until its time is over, and no toast.",
      "Windows answers 200 also for what it drops. Only `received` counts; a toast for a device that is not connected ends " +
        "as `not_joined` with `device_offline` at once.",
      "Windows has no collapse key: the app drops a second ring by its `ask`.",

      "Channels lead to `notify.windows.com` alone, whatever an app says: the access token goes with the request.",
    ],
    links: [
      "https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/push-quickstart",
      "https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/push-request-response-headers",
      "https://learn.microsoft.com/windows/apps/develop/notifications/push-notifications/raw-notification-overview",
      "https://learn.microsoft.com/entra/identity-platform/reference-error-codes",
    ],
  },
  create: (fields, dependencies) => new Wns(fields, dependencies),
});

class Wns implements Notifier {
  readonly #options;
  readonly #entra;
  readonly #channels;
  readonly #token;

  constructor(fields: Options, { clock, network }: ProviderDependencies) {
    this.#options = fields;
    this.#entra = createVendorClient({ clock, network });
    this.#channels = createDeviceAddressClient({ clock, network, hosts: CHANNEL_HOSTS });
    this.#token = createCachedCredential({
      clock,
      renewBeforeMs: RENEW_BEFORE_MS,
      mint: (signal) => this.#mint(signal),
    });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const notification = toNotification(request);
    assertFits(notification.body, MAX_BYTES);
    const channel = to.reveal();
    const issue = channelIssue(channel);
    if (issue) throw new RingError("bad_request", `The push token ${issue}.`);
    return this.#token.use(
      signal,
      (token) => this.#send(channel, notification, token, signal),
      ({ code }) => code === "401",
    );
  }

  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      await this.#mint(signal);
      return { status: "active" };
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#entra.close(), this.#channels.close()]);
  }

  async #send(
    channel: string,
    { headers, body }: WindowsNotification,
    token: string,
    signal: AbortSignal,
  ): Promise<RingReceipt> {
    const answer = await this.#channels.request({
      url: channel,
      headers: { ...headers, authorization: `Bearer ${token}` },
      // Not in chunks, which Windows does not take.
      body: Buffer.from(body),
      signal,
    });
    return { id: acceptedId(answer) };
  }

  async #mint(signal: AbortSignal): Promise<MintedCredential<string>> {
    const { tenant_id, client_id, client_secret } = this.#options;
    const form = { grant_type: "client_credentials", client_id, client_secret: client_secret.reveal(), scope: SCOPE };
    const answer = await this.#entra.request({
      url: `https://login.microsoftonline.com/${tenant_id}/oauth2/v2.0/token`,
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams(form).toString(),
      signal,
    });
    return accessToken(answer);
  }
}
