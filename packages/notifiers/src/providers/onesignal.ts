/**
 * `onesignal`: a ring is one notification to one subscription of an app at OneSignal, and never to a segment.
 * https://documentation.onesignal.com/reference/push-notification
 */
import { randomUUID } from "node:crypto";
import { type Ring, type Secret, secretString } from "@leafmesh/protocol";
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
import { assertFits, checkResult, createVendorClient } from "../http/index.ts";
import { assertListed, createdId } from "./onesignal-answers.ts";

/** Of `data`, which carries the ring; the texts beside it are short. */
const MAX_DATA_BYTES = 2048;
const NOTIFICATIONS_URL = "https://api.onesignal.com/notifications";
const UUID = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i;

const options = z.strictObject({
  app_api_key: secretString("Settings → Keys & IDs → API keys: a key of the app, not one of the organization."),
  app_id: z
    .string()
    .regex(UUID, "must be the app's ID, such as 8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a")
    .meta({ description: "Settings → Keys & IDs → OneSignal App ID." }),
});
type Options = z.output<typeof options>;

export const oneSignalNotifier = defineNotifier({
  provider: "onesignal",
  title: "OneSignal",
  description: "Rings one subscription of an app at OneSignal, on phones and in browsers.",
  options,
  pushToken: z.string().regex(UUID, "must be the ID of a subscription, such as 8f9a6e22-0b4d-41c1-9d3a-5c2ebb9bbd8a"),
  traits: { maxBytes: MAX_DATA_BYTES, ttl: true, collapse: true, silent: "best-effort", link: false, deadTokens: true },
  docs: {
    setUp: [
      "Make an app in OneSignal and give it your credentials of Apple and Google. Its ID is `app_id`.",
      "Under Settings → Keys & IDs, add an API key: it is `app_api_key`. With an IP allowlist it has to hold the " +
        "addresses that the mesh calls from.",
      "For silent rings, take the ring in native code: a Notification Service Extension on Android, and " +
        "`application(_:didReceiveRemoteNotification:fetchCompletionHandler:)` on iOS.",
    ],
    pushToken: "The ID of the push subscription: `OneSignal.User.pushSubscription.id` of the SDK, a UUID.",
    onTheDevice:
      "Takes `leafmesh` from the notification's additional data, in a click listener or a notification service " +
      "extension, and joins.",
    check:
      "Lists the app's latest notification, whose content is not kept. `active` says that the key opens the " +
      "app, not that its platforms are set up.",
    goodToKnow: [
      "`ask` shows a notification with the buttons Allow and Deny; a click listener of the SDK is told `allow` or " +
        "`deny`, and the ring is `leafmesh` in the notification's additional data. Some systems show the buttons in the " +
        "other order.",
      "`silent` wakes the app without a notification. iOS grants two or three of these an hour, and an app that the " +
        "person has stopped by force gets none.",
      "Who has refused notifications is not subscribed, and cannot be rung silently either: the token is dead until the " +
        "app subscribes again.",
      "OneSignal may take a notification to a subscription without looking at the key, and says of a subscription of " +
        "another app that it is not subscribed. So before a token is called dead, the mesh proves once that the key " +
        "opens the app; where it does not, the record is to blame.",
      "A ring that is sent again after a failure carries the same idempotency key, and is shown once.",

      "`{{` and `{%` in the mesh's name would be instructions for OneSignal, so they are taken apart in the title.",
    ],
    links: [
      "https://documentation.onesignal.com/reference/push-notification",
      "https://documentation.onesignal.com/docs/data-notifications",
      "https://documentation.onesignal.com/docs/keys-and-ids",
      "https://documentation.onesignal.com/reference/idempotent-notification-requests",
    ],
  },
  validate({ app_api_key }) {
    const issue = apiKeyIssue(app_api_key);
    return issue === undefined ? [] : [{ path: ["app_api_key"], message: issue }];
  },
  create: (fields, dependencies) => new OneSignal(fields, dependencies),
});

class OneSignal implements Notifier {
  readonly #options;
  readonly #client;
  /** By the ring, which is the same object in each attempt to send it. */
  readonly #idempotencyKeys = new WeakMap<Ring, string>();
  #isProven = false;

  constructor(fields: Options, { clock, network }: ProviderDependencies) {
    this.#options = fields;
    this.#client = createVendorClient({ clock, network });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    const data = { leafmesh: request.body };
    assertFits(JSON.stringify(data), MAX_DATA_BYTES);
    const answer = await this.#client.request({
      url: NOTIFICATIONS_URL,
      headers: { ...this.#headers(), "content-type": "application/json" },
      body: JSON.stringify({
        app_id: this.#options.app_id.toLowerCase(),
        include_subscription_ids: [to.reveal().toLowerCase()],
        idempotency_key: this.#idempotencyKey(request.ring),
        data,
        ...toMessage(request),
      }),
      signal,
    });
    try {
      return { id: createdId(answer) };
    } catch (error) {
      if (error instanceof RingError && error.kind === "dead_token") await this.#prove(signal);
      throw error;
    }
  }

  check(signal: AbortSignal): Promise<CheckResult> {
    return checkResult(async () => {
      await this.#list(signal);
      return { status: "active" };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** Throws {@link RingError} unless the key has opened the app once: else each of its tokens would look dead. */
  async #prove(signal: AbortSignal): Promise<void> {
    if (this.#isProven) return;
    await this.#list(signal);
  }

  async #list(signal: AbortSignal): Promise<void> {
    const query = new URLSearchParams({ app_id: this.#options.app_id.toLowerCase(), limit: "1" });
    const url = `${NOTIFICATIONS_URL}?${query}`;
    assertListed(await this.#client.request({ url, method: "GET", headers: this.#headers(), signal }));
    this.#isProven = true;
  }

  #headers(): Record<string, string> {
    return { accept: "application/json", authorization: `Key ${this.#options.app_api_key.reveal()}` };
  }

  #idempotencyKey(ring: Ring): string {
    const key = this.#idempotencyKeys.get(ring) ?? randomUUID();
    this.#idempotencyKeys.set(ring, key);
    return key;
  }
}

const UNNAMED = "A mesh";
const QUESTION = "Allow this connection?";
const BUTTONS = [
  { id: "allow", text: "Allow" },
  { id: "deny", text: "Deny" },
];

/** Without `contents` nothing is shown. https://documentation.onesignal.com/docs/data-notifications */
function toMessage({ ring, collapseKey, ttlMs, approval }: RingRequest): object {
  const shown = {
    headings: { en: withoutTemplates(ring.mesh ?? UNNAMED) },
    contents: { en: QUESTION },
    buttons: BUTTONS,
    web_buttons: BUTTONS,
    ios_interruption_level: "time_sensitive",
  };
  return {
    priority: 10,
    ttl: Math.max(1, Math.ceil(ttlMs / 1000)),
    collapse_id: collapseKey,
    web_push_topic: collapseKey,
    ...(approval === "ask" ? shown : { content_available: true, huawei_msg_type: "data" }),
  };
}

/** OneSignal runs what stands in `{{ }}` and `{% %}` of a text. */
function withoutTemplates(text: string): string {
  return text.replace(/\{(?=[{%])/g, "{ ");
}

/** It goes into a header as it is. */
function apiKeyIssue(key: Secret): string | undefined {
  const text = key.reveal();
  if (/^(?:key|basic|bearer)\s/i.test(text)) return "must be the key alone, without Key or Basic before it";
  if (text.startsWith("os_v2_org_")) return "is a key of the organization: take one of the app, under its Keys & IDs";
  return /^[\x21-\x7e]+$/.test(text) ? undefined : "must be one word: copy the key again, without spaces and breaks";
}
