/**
 * `webpush`: rings browsers through their own push services, one signed and encrypted message a ring.
 * https://www.rfc-editor.org/rfc/rfc8030
 */
import { createHash } from "node:crypto";
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
import { assertFits, createDeviceAddressClient } from "../http/index.ts";
import { assertAccepted, messageId } from "./webpush-answers.ts";
import { encryptPush, MAX_PLAINTEXT_BYTES } from "./webpush-encryption.ts";
import { PUSH_SERVICE_HOSTS, readSubscription, subscriptionText } from "./webpush-subscription.ts";
import { createVapidSigner, readVapidKey, type VapidSigner } from "./webpush-vapid.ts";

/** Apple refuses a signature without somebody to write to, and takes no spaces, no < > and no localhost. */
const CONTACT = /^(?:mailto:[^\s<>@,?]+@|https:\/\/)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?:(?<=https:.*)\/[^\s<>]*)?$/;

const options = z.strictObject({
  vapid_private_key: secretString(
    "The private key of a VAPID pair, as 43 characters. Pages subscribe with its public key.",
  ),
  contact: z
    .string()
    .max(200)
    .regex(CONTACT, "must be mailto: and an address, or an https:// page, such as mailto:ops@example.com")
    .meta({
      description: "Where push services reach you when they have trouble with your messages: mailto: or https://.",
    }),
});
type Options = z.output<typeof options>;

export const webpushNotifier = defineNotifier({
  provider: "webpush",
  title: "Web Push",
  description: "Rings browsers: Chrome, Edge, Firefox and Safari, each through the push service of its maker.",
  options,
  pushToken: subscriptionText,
  traits: {
    maxBytes: MAX_PLAINTEXT_BYTES,
    ttl: true,
    collapse: true,
    silent: "best-effort",
    link: false,
    deadTokens: true,
  },
  docs: {
    setUp: [
      "Make a VAPID key pair with `leafmesh keys webpush`. The private key is `vapid_private_key`.",
      "In the page, register a service worker and subscribe with the public key: " +
        "`registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey })`.",
      'Let the worker hand what it gets to the device kit: `event.waitUntil(device.handleRing(event.data.text(), "push"))`.',
    ],
    pushToken:
      "`JSON.stringify(subscription)`: the text of the browser's `PushSubscription`, with `endpoint` and `keys`. A " +
      "subscription changes (`pushsubscriptionchange`): the page looks at it at every start.",
    onTheDevice:
      "The site's service worker takes the ring from the push event, shows a notification, and opens a page " +
      "that joins with the device kit.",
    check:
      "No push service can be asked without ringing: the test looks at the key and the contact, shows the " +
      "public key that belongs to it, and is `readable` at best.",
    goodToKnow: [
      "The message is the ring itself, encrypted for the browser. What a person sees is up to the worker: for `ask` it " +
        "shows a notification whose click opens a page with Allow and Deny, since buttons in notifications are not in " +
        "every browser.",
      "Browsers want something shown for every push that comes while no page of the site is visible. With `silent` " +
        "nobody is asked, but a notification shows all the same; Safari takes the subscription away otherwise.",
      "A worker lives for some tens of seconds after a push. What takes longer needs an open page.",
      "A subscription belongs to one VAPID key. After a change of `vapid_private_key` every page has to subscribe again; " +
        "rings until then end with `notifier_key_refused`, and their tokens stay.",
      "Only the push services of Google, Mozilla, Apple and Microsoft are called, whatever an endpoint says.",

      "iPhones and iPads take part from iOS 16.4 on, in web apps that were added to the Home Screen.",
    ],
    links: [
      "https://www.rfc-editor.org/rfc/rfc8030",
      "https://www.rfc-editor.org/rfc/rfc8291",
      "https://www.rfc-editor.org/rfc/rfc8292",
      "https://developer.mozilla.org/docs/Web/API/Push_API",
      "https://mozilla-services.github.io/autopush-rs/errors.html",
      "https://developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers",
    ],
  },
  validate({ vapid_private_key }) {
    const read = readVapidKey(vapid_private_key);
    return "issue" in read ? [{ path: ["vapid_private_key"], message: read.issue }] : [];
  },
  create: (fields, dependencies) => new WebPush(fields, dependencies),
});

class WebPush implements Notifier {
  readonly #options;
  readonly #clock;
  readonly #client;
  #signer: VapidSigner | undefined;

  constructor(fields: Options, { clock, network }: ProviderDependencies) {
    this.#options = fields;
    this.#clock = clock;
    this.#client = createDeviceAddressClient({ clock, network, hosts: PUSH_SERVICE_HOSTS });
  }

  async ring(request: RingRequest, to: Secret, signal: AbortSignal): Promise<RingReceipt> {
    assertFits(request.body, MAX_PLAINTEXT_BYTES);
    const read = readSubscription(to.reveal());
    if ("issue" in read) throw new RingError("bad_request", `The push token ${read.issue}.`);
    const { subscription } = read;
    const answer = await this.#client.request({
      url: subscription.endpoint,
      headers: {
        // Never 0, which Edge's service refuses.
        ttl: String(Math.max(1, Math.ceil(request.ttlMs / 1000))),
        urgency: "high",
        topic: topicOf(request.collapseKey),
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        authorization: this.#sign(subscription.origin),
      },
      body: encryptPush(Buffer.from(request.body), subscription),
      signal,
    });
    assertAccepted(answer);
    return { id: messageId(answer) };
  }

  /** There is nobody to ask: what a push service thinks of a key shows when a subscription is rung. */
  async check(): Promise<CheckResult> {
    const read = readVapidKey(this.#options.vapid_private_key);
    if ("issue" in read) return { status: "failing", reason: `The field vapid_private_key ${read.issue}.` };
    const { publicKey } = read.key;
    const reason = `No push service can be asked without ringing. Pages must have subscribed with the public key ${publicKey}.`;
    return { status: "readable", reason };
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  #sign(origin: string): string {
    if (!this.#signer) {
      const read = readVapidKey(this.#options.vapid_private_key);
      if ("issue" in read) throw new RingError("bad_credential", `The field vapid_private_key ${read.issue}.`);
      this.#signer = createVapidSigner(read.key, this.#options.contact, this.#clock);
    }
    return this.#signer(origin);
  }
}

/**
 * 32 letters and digits: Mozilla documents no others, and Apple refuses (`BadWebPushTopic`) what base64url cannot be, by
 * its length for instance. Push services read topics, so it also says nothing about the ask.
 */
function topicOf(collapseKey: string): string {
  return createHash("sha256").update(collapseKey).digest("hex").slice(0, 32);
}
